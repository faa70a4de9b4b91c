// Exports whose codes are chosen with a calibration: slices, memory, and experts that few tokens
// chose.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "backends/calibration/calibration_stats.h"
#include "frontends/calibrate/calibrate_model.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"
#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using testing::HasSubstr;

std::string text_of_digits(size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) text += std::to_string(i * 37) + " plus ";
  return text.substr(0, bytes);
}

// Statistics of tinymoe, made once for a number of bytes of text.
std::string tinymoe_stats(size_t bytes) {
  static std::map<size_t, std::string> made;
  std::string& folder = made[bytes];
  if (!folder.empty()) return folder;
  folder = fresh_folder("stats_of_" + std::to_string(bytes));
  const std::string text = fresh_folder("text") + "/text";
  write_file(text, text_of_digits(bytes));
  CalibrateOptions options;
  options.source = checkpoint_of("tinymoe");
  options.texts = {text};
  options.folder = folder;
  options.window = 100;
  const auto report = calibrate_model(options);
  EXPECT_TRUE(report) << render(report.error());
  return folder;
}

Outcome export_tinymoe(const std::string& out, const Words& more) {
  Words words = {"export", checkpoint_of("tinymoe"), "-o", out, "--quiet", "--context", "32"};
  words.insert(words.end(), more.begin(), more.end());
  return run_command(words);
}

TEST(CalibratedExport, ASliceOfDownHasTheMomentsOfItsOwnInputs) {
  const auto stats = CalibrationStats::open(tinymoe_stats(600));
  ASSERT_TRUE(stats);
  const auto whole = stats->find(1, "expert_down", 3),
             slice = stats->find(1, "expert_down", 3, {30, 20});
  ASSERT_TRUE(whole && slice);
  EXPECT_EQ(slice->inputs, 20);
  EXPECT_EQ(slice->tokens, whole->tokens);
  for (size_t i = 0; i < 20; ++i)
    for (size_t j = 0; j < 20; ++j)
      EXPECT_EQ(slice->sums[i * 20 + j], whole->sums[(30 + i) * 80 + 30 + j]);
  EXPECT_EQ(stats->find(1, "expert_down", 3, {70, 20}).error().front().code,
            "calibrate.hessian_size");
}

TEST(CalibratedExport, TakesExpertsThatAreCutIntoSlices) {
  const std::string out = fresh_folder("out");
  const Words flags = {"--weights", "experts=int4", "--max-shard-mb", "moe=0.012"};
  Words calibrated = flags;
  calibrated.insert(calibrated.end(), {"--calibration", tinymoe_stats(600)});
  expect_fine(export_tinymoe(out + "/nearest", flags));
  expect_fine(export_tinymoe(out + "/calibrated", calibrated));
  expect_fine(run_command({"check", out + "/calibrated"}));
  const json manifest = read_json(out + "/calibrated/manifest.json");
  int slices = 0;
  for (const json& shard : manifest.at("shards")) {
    if (shard.value("slices", 1) == 1 || shard.at("kind") != "experts") continue;
    ++slices;
    const std::string data = "/" + shard.at("data")[0].at("path").get<std::string>();
    EXPECT_NE(read_file(out + "/calibrated" + data), read_file(out + "/nearest" + data)) << data;
  }
  EXPECT_GT(slices, 16);
}

TEST(CalibratedExport, CountsTheEncoderAgainstTheMemory) {
  const std::string out = fresh_folder("out") + "/out";
  const Words flags = {"--weights", "experts=int4", "--memory", "64MiB", "--jobs", "1"};
  Words calibrated = flags;
  calibrated.insert(calibrated.end(), {"--calibration", tinymoe_stats(600)});
  const Outcome refused = export_tinymoe(out, calibrated);
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr("encode.over_budget"));
  EXPECT_THAT(refused.err, HasSubstr("model.layers.0.mlp.experts.0.")) << "names a weight";
  EXPECT_THAT(refused.err, HasSubstr("takes 1 MiB"));
  EXPECT_FALSE(fs::exists(out)) << "nothing is written";
  expect_fine(export_tinymoe(out, flags));
}

TEST(CalibratedExport, NamesExpertsThatFewTokensChose) {
  const std::string out = fresh_folder("out");
  const auto stats = CalibrationStats::open(tinymoe_stats(100));
  ASSERT_TRUE(stats);
  const Outcome exported =
      export_tinymoe(out, {"--weights", "experts=int4", "--calibration", tinymoe_stats(100)});
  expect_fine(exported);
  const json few = read_json(out + "/report.json").at("few_tokens");
  EXPECT_EQ(few.size(), 64u) << "100 tokens are few for 16 experts of 4 layers";
  bool never = false;
  for (const json& one : few) {
    const auto layer = one.at("layer").get<int64_t>(), expert = one.at("expert").get<int64_t>();
    const auto tokens = one.at("tokens").get<int64_t>();
    EXPECT_EQ(tokens, stats->tokens(layer, "expert_gate", expert));
    const auto borrowed = static_cast<double>(stats->borrowed(layer, "expert_gate", expert));
    EXPECT_DOUBLE_EQ(one.at("weight").get<double>(),
                     borrowed / (borrowed + static_cast<double>(tokens)));
    never = never || tokens == 0;
  }
  EXPECT_TRUE(never);
  EXPECT_THAT(exported.err + exported.out, HasSubstr("calibrate.few_tokens"));
  EXPECT_THAT(exported.err + exported.out, HasSubstr("no token of the calibration chose"));
}

TEST(CalibratedExport, RefusesACalibrationOfAnotherCheckpoint) {
  const std::string out = fresh_folder("out") + "/out";
  const Outcome refused = run_command({"export", checkpoint_of("mixtral_a"), "-o", out, "--quiet",
                                       "--weights", "int8", "--calibration", tinymoe_stats(600)});
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr("calibrate.other_checkpoint"));
  EXPECT_THAT(refused.err, HasSubstr("next: run moec calibrate with this checkpoint"));
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace moec
