// moec inspect: shard files as text and as JSON, and other files.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// Checks the ports and the IR of a shard file, for each target.
void expect_shard_json(const Words& flags, const std::string& file) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("mixtral_a", out, flags));
  const Outcome text = run_command({"inspect", out + "/" + file});
  const Outcome as_json = run_command({"inspect", out + "/" + file, "--json"});
  expect_fine(as_json);
  const json shard = json::parse(as_json.out);
  EXPECT_EQ(shard["kind"], "shard");
  EXPECT_EQ(shard["name"], "L00.moe");
  EXPECT_EQ(shard["inputs"][0]["name"], "hidden");
  EXPECT_EQ(shard["outputs"][0]["name"], "moe_out");
  EXPECT_GT(shard["weight_bytes"], 0);
  EXPECT_EQ(shard["ir"], text.out);
}

TEST(Inspect, PrintsAShardAsJson) {
  expect_shard_json({}, "moe/L00.t1.onnx");
  expect_shard_json({"--target", "ane"}, "moe/L00.t1.mlpackage");
}

TEST(Inspect, RejectsUnknownAndMissingFiles) {
  const Outcome script = run_command({"inspect", source_path("CMakeLists.txt"), "--json"});
  EXPECT_EQ(script.exit_code, kExitBadInput);
  EXPECT_EQ(json::parse(script.out)["diagnostics"][0]["code"], "inspect.kind");
  const Outcome absent = run_command({"inspect", "nowhere.onnx"});
  EXPECT_EQ(absent.exit_code, kExitBadInput);
  EXPECT_THAT(absent.err, AllOf(HasSubstr("nowhere.onnx: "),
                                testing::Not(HasSubstr("nowhere.onnx/config.json"))));
}

}  // namespace
}  // namespace moec
