#include "backends/runtime/text/tagger_biases.h"

#include "tests/files.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

constexpr std::string_view kFile = R"({"operating_points": {"default": {"biases": {
  "transition_bias_background_stay": 0.5, "transition_bias_background_to_start": -1,
  "transition_bias_inside_to_continue": 0.25, "transition_bias_inside_to_end": 2,
  "transition_bias_end_to_background": -0.125, "transition_bias_end_to_start": 3}}}})";

std::string calibration_with(std::string_view from, std::string_view to) {
  std::string text(kFile);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

Result<manifest::Tagging> read(const std::string& text) {
  const std::string folder = testing::TempDir() + "/calibration_test." + running_test();
  std::filesystem::create_directories(folder);
  write_file(calibration_path(folder), text);
  manifest::Tagging tagging;
  MOEC_TRY(read_calibration(folder, tagging));
  return tagging;
}

void expect_malformed(const std::string& text, const std::string& cause) {
  const auto tagging = read(text);
  expect_error(tagging, "calibration.malformed", cause);
  EXPECT_TRUE(tagging.error()[0].place.file.ends_with(kCalibrationFile));
}

TEST(Calibration, ReadsEachBias) {
  const auto tagging = read(std::string(kFile));
  ASSERT_TRUE(tagging) << render(tagging.error());
  EXPECT_EQ(tagging->stay_outside, 0.5);
  EXPECT_EQ(tagging->outside_to_start, -1);
  EXPECT_EQ(tagging->inside_to_inside, 0.25);
  EXPECT_EQ(tagging->inside_to_end, 2);
  EXPECT_EQ(tagging->end_to_outside, -0.125);
  EXPECT_EQ(tagging->end_to_start, 3);
}

TEST(Calibration, KeepsDefaultsWithoutAFile) {
  manifest::Tagging tagging;
  tagging.stay_outside = 7;
  ASSERT_TRUE(read_calibration(testing::TempDir() + "/nowhere", tagging));
  EXPECT_EQ(tagging.stay_outside, 7);
}

TEST(Calibration, RejectsMalformedFiles) {
  const std::string path = "operating_points.default.biases";
  expect_malformed("[]", "must be an object");
  expect_malformed("{}", "field \"operating_points\" is missing");
  expect_malformed(calibration_with("\"biases\"", "\"bias\""), "\"" + path + "\" is missing");
  expect_malformed(calibration_with("0.5", "\"0.5\""), "background_stay\" must be a number");
  expect_malformed(calibration_with("to_end\"", "to_ende\""),
                   path + ".transition_bias_inside_to_end");
  expect_malformed(calibration_with("0.5", "0.5, \"x\": 1"), path + ".x\" is unknown");
  expect_malformed(calibration_with("0.5", "1e999"), "");
  expect_malformed(calibration_with("0.5", "0.5, \"x\": 1, \"x\": 1"), "occurs twice");
  expect_malformed(std::string(kFile) + "x", "");
  expect_malformed(std::string(kFile) + '\0', "NUL");
}

}  // namespace
}  // namespace moec
