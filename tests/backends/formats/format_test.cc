// The table of formats: its rows, and the errors of formats without graphs.
#include "backends/formats/format.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::UnorderedElementsAre;

TEST(Format, OrdersRowsByTheirIds) {
  for (const ShardFormat id :
       {ShardFormat::onnx, ShardFormat::coreml, ShardFormat::gguf, ShardFormat::tflite})
    EXPECT_EQ(format_of(id).id, id);
  EXPECT_EQ(all_formats().size(), enum_names(ShardFormat{}).size());
}

TEST(Format, EmitsAndReadsGraphs) {
  for (const Format& format : all_formats()) {
    const bool has_graphs = format.shape == FormatShape::graphs;
    EXPECT_EQ(format.emit && format.weight_views && format.file_names, has_graphs)
        << enum_name(format.id);
    EXPECT_EQ(format.read != nullptr, has_graphs) << enum_name(format.id);
  }
}

TEST(Format, PredictsFileNames) {
  const std::vector<GraphKey> widths = {{1, ""}, {8, ""}};
  EXPECT_THAT(format_of(ShardFormat::onnx).file_names("moe/L00", widths, {}),
              UnorderedElementsAre("moe/L00.t1.onnx", "moe/L00.t8.onnx", "moe/L00.data"));
  FormatOptions functions;
  functions.coreml.packaging = WidthPackaging::functions;
  EXPECT_THAT(format_of(ShardFormat::coreml).file_names("moe/L00", widths, functions),
              UnorderedElementsAre("moe/L00.mlpackage/Manifest.json",
                                   "moe/L00.mlpackage/Data/com.apple.CoreML/model.mlmodel",
                                   "moe/L00.mlpackage/Data/com.apple.CoreML/weights/weight.bin"));
  functions.coreml.packaging = WidthPackaging::separate;
  EXPECT_EQ(format_of(ShardFormat::coreml).file_names("moe/L00", widths, functions).size(), 6u);
  EXPECT_EQ(format_of(ShardFormat::coreml).file_names("moe/L00", widths, {}).size(), 9u);
  EXPECT_THAT(format_of(ShardFormat::tflite).file_names("moe/L00", widths, {}),
              UnorderedElementsAre("moe/L00.tflite"));
}

TEST(Format, RecognizesGraphsByTheirSuffix) {
  EXPECT_EQ(format_of_path("moe/L00.t1.onnx")->id, ShardFormat::onnx);
  EXPECT_EQ(format_of_path("moe/L00.mlpackage")->id, ShardFormat::coreml);
  EXPECT_EQ(format_of_path("model.mlmodel")->id, ShardFormat::coreml);
  EXPECT_EQ(format_of_path("moe/L00.tflite")->id, ShardFormat::tflite);
  EXPECT_EQ(format_of_path("moe/L00.data"), nullptr);
  EXPECT_EQ(format_of_path("onnx"), nullptr);
}

TEST(Format, ListsTheSuffixesOfAllFormats) {
  EXPECT_THAT(shard_suffixes(),
              UnorderedElementsAre(".onnx", ".data", ".mlpackage", ".gguf", ".tflite"));
}

TEST(Format, RejectsGraphsOfWeightsOnlyFormats) {
  EXPECT_TRUE(require_graphs(format_of(ShardFormat::onnx), "a.onnx"));
  const Status refused = require_graphs(format_of(ShardFormat::gguf), "a.gguf");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().front().code, "format.weights_only");
  EXPECT_EQ(refused.error().front().place.file, "a.gguf");
}

}  // namespace
}  // namespace moec
