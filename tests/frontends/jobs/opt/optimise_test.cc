// Runs passes on a file without using the command line.
#include "frontends/jobs/opt/optimise.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/targets/find_target.h"
#include "tests/frontends/cli/command.h"

namespace moec {
namespace {

PassOptions onnx_options() {
  PassOptions options;
  options.target = find_target("onnx").value();
  return options;
}

std::string file_of(const std::string& text) {
  const std::string path = fresh_folder("ir") + "/a.ir";
  std::ofstream(path) << text;
  return path;
}

TEST(Optimise, RunsPassesFromFileOrFlag) {
  const auto input = read_opt_input(source_path("tests/passes/lower_router.ir"), onnx_options());
  ASSERT_TRUE(input.has_value()) << render(input.error());
  EXPECT_EQ(input->file.passes, "lower_router");
  const auto lowered = optimise(*input, "", {});
  ASSERT_TRUE(lowered.has_value()) << render(lowered.error());
  const nlohmann::ordered_json json = optimised_json(*lowered);
  EXPECT_EQ(json["shard"], "router");
  ASSERT_EQ(json["passes"].size(), 1u);
  EXPECT_EQ(json["passes"][0]["pass"], "lower_router");
  EXPECT_EQ(json["passes"][0]["changed"], true);
  const auto other = optimise(*input, "lower_rms_norm", {});
  ASSERT_TRUE(other.has_value()) << render(other.error());
  EXPECT_FALSE(other->result.passes.at(0).changed);
}

TEST(Optimise, NamesTheFileWithUnknownPasses) {
  const std::string path = file_of(
      "// run: nope\nshard a model {\n  input %x : f32[1,4,1,1]\n"
      "  output y = %x\n}\n");
  const auto input = read_opt_input(path, onnx_options());
  ASSERT_TRUE(input.has_value()) << render(input.error());
  EXPECT_EQ(optimise(*input, "", {}).error()[0].place.file, path);
  EXPECT_EQ(optimise(*input, "nope", {}).error()[0].place.file, "");
}

TEST(Optimise, ListsAllPasses) { EXPECT_EQ(passes_json()["passes"].size(), all_passes().size()); }

}  // namespace
}  // namespace moec
