// The table of formats: its rows, and what is refused of a format without graphs.
#include "frontends/formats/format.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::UnorderedElementsAre;

TEST(Format, RowsAreInTheOrderOfTheirIds) {
  for (const ShardFormat id : {ShardFormat::onnx, ShardFormat::coreml})
    EXPECT_EQ(format_of(id).id, id);
  EXPECT_EQ(all_formats().size(), enum_names(ShardFormat{}).size());
}

TEST(Format, RowsWithGraphsCanEmitAndRead) {
  for (const Format& format : all_formats()) {
    EXPECT_TRUE(format.emit && format.weight_views) << enum_name(format.id);
    EXPECT_EQ(format.read != nullptr, format.shape == FormatShape::graphs) << enum_name(format.id);
  }
}

TEST(Format, GraphsAreRecognisedByTheirSuffix) {
  EXPECT_EQ(format_of_path("moe/L00.t1.onnx")->id, ShardFormat::onnx);
  EXPECT_EQ(format_of_path("moe/L00.mlpackage")->id, ShardFormat::coreml);
  EXPECT_EQ(format_of_path("model.mlmodel")->id, ShardFormat::coreml);
  EXPECT_EQ(format_of_path("moe/L00.data"), nullptr);
  EXPECT_EQ(format_of_path("onnx"), nullptr);
}

TEST(Format, SuffixesAreThoseOfAllFormats) {
  EXPECT_THAT(shard_suffixes(), UnorderedElementsAre(".onnx", ".data", ".mlpackage"));
}

TEST(Format, OptionsBelongToOneFormat) {
  const Format& onnx = format_of(ShardFormat::onnx);
  const Format& coreml = format_of(ShardFormat::coreml);
  EXPECT_TRUE(onnx.has(FormatOption::data_checksum));
  EXPECT_FALSE(coreml.has(FormatOption::data_checksum));
  for (const FormatOption option :
       {FormatOption::width_packaging, FormatOption::spec_version, FormatOption::ane_book}) {
    EXPECT_FALSE(onnx.has(option));
    EXPECT_TRUE(coreml.has(option));
  }
}

TEST(Format, WeightsOnlyFilesHaveNoGraphToRead) {
  Format format = format_of(ShardFormat::onnx);
  EXPECT_TRUE(require_graphs(format, "a.onnx"));
  format.shape = FormatShape::weights_only;
  const Status refused = require_graphs(format, "a.onnx");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().front().code, "format.weights_only");
  EXPECT_EQ(refused.error().front().place.file, "a.onnx");
}

}  // namespace
}  // namespace moec
