// The files that emit_tflite() writes: layout, names, forms of ops, and errors.
#include <gmock/gmock.h>

#include "backends/formats/tflite/read_tflite.h"
#include "tests/backends/formats/tflite/testing.h"

namespace moec {
namespace {

using testing::ElementsAre;

// Rows times a matrix that is stored as rows.
Shard projection(int64_t tokens) {
  Builder b("L00.moe", Form::placed);
  const ValueId x = b.input("hidden", token_type(DType::f32, Layout::rows, 6, tokens));
  const ValueId w = b.weight(seeded_view(4, {DType::f32, {5, 6}}), "experts.3.w");
  b.output("moe_out", b.matmul(x, b.transpose(w, {1, 0}), "experts.3.out"));
  return b.finish();
}

std::string error_code(const Shard& shard) {
  const TestFolder folder;
  const auto report = emit_widths({{1, &shard}}, folder);
  return report ? std::string() : report.error().front().code;
}

TEST(EmitTflite, WritesOneFileForAllWidths) {
  const TestFolder folder;
  const Shard one = projection(1), four = projection(4);
  const auto report = emit_widths({{1, &one}, {4, &four}}, folder);
  ASSERT_TRUE(report) << render(report.error());
  ASSERT_EQ(report->graphs.size(), 2u);
  EXPECT_EQ(report->graphs[0].function, "t1");
  EXPECT_EQ(report->graphs[1].function, "t4");
  EXPECT_EQ(report->graphs[0].file, report->graphs[1].file);
  EXPECT_EQ(report->data, std::vector{report->graphs[0].file});
  ASSERT_EQ(report->ranges.size(), 1u);
  EXPECT_EQ(report->ranges[0].range.offset, 65536);
  EXPECT_EQ(read_file(folder / "shard.tflite").size(), 65536 + 5 * 6 * 4);
}

TEST(EmitTflite, SharesBuffersAmongWidths) {
  const TestFolder folder;
  const Shard one = projection(1), four = projection(4);
  ASSERT_TRUE(emit_widths({{1, &one}, {4, &four}}, folder));
  const std::string bytes = read_file(folder / "shard.tflite");
  const tflite::Model* model = tflite::GetModel(bytes.data());
  std::vector<uint64_t> offsets;
  for (const tflite::Buffer* buffer : *model->buffers())
    if (buffer->offset() > 0) offsets.push_back(buffer->offset());
  EXPECT_THAT(offsets, ElementsAre(65536));
}

TEST(EmitTflite, NamesTensorsByPath) {
  const TestFolder folder;
  const Shard shard = projection(1);
  ASSERT_TRUE(emit_widths({{1, &shard}}, folder));
  const std::string bytes = read_file(folder / "shard.tflite");
  const tflite::Model* model = tflite::GetModel(bytes.data());
  std::vector<std::string> names;
  for (const tflite::Tensor* tensor : *model->subgraphs()->Get(0)->tensors())
    names.push_back(tensor->name()->str());
  EXPECT_THAT(names, ElementsAre("hidden", "experts.3.w", "L00/moe/experts.3/out"));
  const tflite::SignatureDef* signature = model->signature_defs()->Get(0);
  EXPECT_EQ(signature->inputs()->Get(0)->name()->str(), "hidden");
  EXPECT_EQ(signature->outputs()->Get(0)->name()->str(), "moe_out");
  EXPECT_EQ(signature->outputs()->Get(0)->tensor_index(), 2u);
}

TEST(EmitTflite, WritesEqualBytesAgain) {
  std::vector<std::string> files;
  for (int run = 0; run < 2; ++run) {
    const TestFolder folder;
    const Shard shard = every_tflite_op(DType::f32, 4);
    ASSERT_TRUE(emit_widths({{4, &shard}}, folder));
    files.push_back(read_file(folder / "shard.tflite"));
  }
  EXPECT_EQ(files[0], files[1]);
}

TEST(EmitTflite, PassesTheVerifier) {
  const TestFolder folder;
  const Shard shard = every_tflite_op(DType::f16, 4);
  ASSERT_TRUE(emit_widths({{4, &shard}}, folder));
  const std::string bytes = read_file(folder / "shard.tflite");
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  EXPECT_TRUE(tflite::VerifyModelBuffer(verifier));
}

TEST(EmitTflite, FusesTransposedWeights) {
  const TestFolder folder;
  const Shard shard = projection(2);
  ASSERT_TRUE(emit_widths({{2, &shard}}, folder));
  EXPECT_THAT(operators_of(folder / "shard.tflite"), ElementsAre("FULLY_CONNECTED"));
}

TEST(EmitTflite, FusesGelu) {
  const TestFolder folder;
  const Shard shard = gelu_shard(DType::f32);
  ASSERT_TRUE(emit_widths({{3, &shard}}, folder));
  EXPECT_THAT(operators_of(folder / "shard.tflite"), ElementsAre("GELU"));
}

TEST(EmitTflite, KeepsDepthwiseFiltersConstant) {
  const TestFolder folder;
  const Shard depthwise = conv_shard(DType::f32, 6, false);
  ASSERT_TRUE(emit_widths({{4, &depthwise}}, folder));
  EXPECT_THAT(operators_of(folder / "shard.tflite"),
              ElementsAre("TRANSPOSE", "CONV_2D", "TRANSPOSE"));
}

TEST(EmitTflite, RejectsErfOutsideOfGelu) {
  EXPECT_EQ(error_code(gelu_shard(DType::f32, 0.5)), "emit.op");
}

TEST(EmitTflite, RejectsSoftmaxAlongInnerAxis) {
  Builder b("s", Form::placed);
  const ValueId x = b.input("x", {DType::f32, {3, 4}});
  b.output("y", b.softmax(x, 0));
  EXPECT_EQ(error_code(b.finish()), "emit.op");
}

TEST(EmitTflite, RejectsTypesWithoutKernels) {
  Builder b("s", Form::placed);
  const ValueId x = b.input("x", {DType::bf16, {3, 4}});
  b.output("y", b.softmax(x, 1));
  EXPECT_EQ(error_code(b.finish()), "emit.dtype");
}

TEST(EmitTflite, RejectsStates) {
  Builder b("s", Form::placed);
  b.state("cache", {DType::f32, {3}});
  b.output("y", b.emit(StateRead{"cache"}, {}));
  EXPECT_EQ(error_code(b.finish()), "emit.state");
}

TEST(EmitTflite, RejectsTooManyConstants) {
  Builder b("s", Form::placed);
  const ValueId x = b.input("x", {DType::f32, {1024, 1024, 1024}});
  b.output("y", b.add(x, b.constant({DType::f32, {1024, 1024, 1024}}, {1})));
  EXPECT_EQ(error_code(b.finish()), "emit.graph_too_large");
}

TEST(EmitTflite, LeavesNoFileBehindErrors) {
  const TestFolder folder;
  const Shard shard = gelu_shard(DType::f32, 0.5);
  EXPECT_FALSE(emit_widths({{3, &shard}}, folder));
  EXPECT_TRUE(std::filesystem::is_empty(folder.string()));
}

}  // namespace
}  // namespace moec
