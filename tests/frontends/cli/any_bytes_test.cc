// Paths, files and arguments may contain bytes that are not UTF-8, which JSON cannot represent.
// With --json, a command must still report its result or error as valid JSON.
#include <gmock/gmock.h>

#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::HasSubstr;
using Json = CheckpointCopy::Json;

constexpr const char* kReplacement = "\xef\xbf\xbd";  // U+FFFD in UTF-8

// Returns the error that the command reports as JSON.
Json first_error(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.out << outcome.err;
  const Json report = Json::parse(outcome.out, nullptr, false);
  if (!report.is_object()) {
    ADD_FAILURE() << "not JSON: " << outcome.out;
    return {{"code", ""}, {"place", {{"file", ""}}}};
  }
  return report["diagnostics"][0];
}

TEST(AnyBytes, YieldValidJsonInConfigs) {
  const CheckpointCopy copy;
  copy.write("config.json", "{\"model_type\": \"\xff\"}");
  const Json error = first_error(run_command({"plan", copy.folder(), "--json"}));
  EXPECT_THAT(error["code"].get<std::string>(), HasSubstr("json."));
}

TEST(AnyBytes, YieldValidJsonInWeightHeaders) {
  const CheckpointCopy copy;
  copy.edit_header_text([](std::string text) {
    text.replace(text.find("norm"), 1, "\xff");
    return text;
  });
  for (const Words& words :
       {Words{"inspect", copy.folder(), "--json"},
        Words{"export", copy.folder(), "--out", fresh_folder("out"), "--json"}})
    EXPECT_THAT(first_error(run_command(words))["place"]["file"].get<std::string>(),
                HasSubstr("model.safetensors"));
}

TEST(AnyBytes, YieldValidJsonInInputPaths) {
  const Json error = first_error(run_command({"check", "\xff", "--json"}));
  EXPECT_EQ(error["code"], "manifest.read");
  EXPECT_EQ(error["place"]["file"], std::string(kReplacement) + "/manifest.json");
}

TEST(AnyBytes, YieldValidJsonInOutputPaths) {
  const std::string out = fresh_folder("out") + "/o\xf6";
  const Outcome exported =
      run_command({"export", checkpoint_of("tinymoe"), "--out", out, "--json"});
  expect_fine(exported);
  EXPECT_THAT(Json::parse(exported.out)["out"].get<std::string>(),
              HasSubstr("o" + std::string(kReplacement)));
  const Json error = first_error(run_command({"run", out, "--prompt-file", "\xff", "--json"}));
  EXPECT_EQ(error["code"], "run.prompt_file");
}

}  // namespace
}  // namespace moec
