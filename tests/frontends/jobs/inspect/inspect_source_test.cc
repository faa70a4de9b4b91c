// Inspects paths without using the command line.
#include "frontends/jobs/inspect/inspect_source.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "frontends/jobs/inspect/path_kind.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::ElementsAre;

TEST(PathKind, DependsOnNamesAndFirstBytes) {
  const std::string tinymoe = checkpoint_of("tinymoe");
  EXPECT_EQ(kind_of_path(tinymoe), PathKind::checkpoint);
  EXPECT_EQ(kind_of_path(tinymoe + "/config.json"), PathKind::config);
  EXPECT_EQ(kind_of_path(tinymoe + "/model.safetensors"), PathKind::weights);
  EXPECT_EQ(kind_of_path(source_path("tests/golden/tinymoe")), PathKind::golden);
  EXPECT_EQ(kind_of_path(source_path("tests/passes/place.ir")), PathKind::ir);
  EXPECT_EQ(kind_of_path("qwen3-30b-a3b"), PathKind::published);
  EXPECT_EQ(kind_of_path(fresh_folder("empty")), PathKind::unknown);
  EXPECT_TRUE(holds_golden(source_path("tests/golden/mixtral_a")));
  EXPECT_FALSE(holds_golden(tinymoe));
}

TEST(PathKind, RecognizesAFolderOfExports) {
  const std::string folder = fresh_folder("out");
  for (const char* name : {"/onnx", "/ane", "/other"})
    std::filesystem::create_directories(folder + name);
  for (const char* name : {"/onnx", "/ane"})
    std::ofstream(folder + name + "/manifest.json") << "{}";
  EXPECT_EQ(kind_of_path(folder), PathKind::several);
  EXPECT_EQ(kind_of_path(folder + "/ane"), PathKind::exported);
  EXPECT_THAT(finished_exports_in(folder), ElementsAre(folder + "/ane", folder + "/onnx"));
}

TEST(InspectSource, ReadsACheckpoint) {
  const auto found = inspect_source({.source = checkpoint_of("mixtral_a")});
  ASSERT_TRUE(found.has_value()) << render(found.error());
  const auto& checkpoint = std::get<Checkpoint>(*found);
  const nlohmann::ordered_json json = checkpoint_json(checkpoint, false);
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["kind"], "checkpoint");
  EXPECT_EQ(json["family"], "mixtral");
  EXPECT_EQ(json["moe_layers"], count_moe_layers(checkpoint.config));
  EXPECT_FALSE(json.contains("tensors"));
  EXPECT_EQ(checkpoint_json(checkpoint, true)["tensors"].size(), checkpoint.weights.tensors.size());
}

TEST(InspectSource, RejectsUnknownFormats) {
  const auto found = inspect_source({.source = source_path("README.md")});
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error()[0].code, "inspect.kind");
}

}  // namespace
}  // namespace moec
