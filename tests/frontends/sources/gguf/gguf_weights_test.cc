#include "frontends/sources/gguf/gguf_weights.h"

#include "tests/frontends/sources/gguf/gguf_bytes.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

Gguf model_of(std::vector<GgufTensor> tensors) {
  return {{{"m.gguf", 1 << 20}}, {}, std::move(tensors)};
}

std::string view_text(const GgufTensor& tensor) {
  const auto view = gguf_view(model_of({tensor}), tensor);
  return view ? to_string(*view) : render(view.error());
}

TEST(GgufWeights, ReadPlainTensorsDirectly) {
  EXPECT_EQ(view_text({"a", BlockType::bf16, {2, 3}, 0, 64, 12}), "@a:bf16[2,3]");
  EXPECT_EQ(view_text({"a", BlockType::f32, {}, 0, 64, 4}), "@a:f32[]");
  EXPECT_EQ(view_text({"a", BlockType::i64, {4}, 0, 64, 32}), "@a:i64[4]");
}

TEST(GgufWeights, DecodeBlocksAlongRows) {
  const GgufTensor tensor{"e", BlockType::q4_k, {8, 6, 512}, 0, 64, 8 * 6 * 288};
  EXPECT_EQ(view_text(tensor), "@e:u8[8,6,288] | unblock(q4_k)");
  const auto view = gguf_view(model_of({tensor}), tensor);
  ASSERT_TRUE(view) << render(view.error());
  EXPECT_EQ(view_type(*view), (Type{DType::f32, {8, 6, 512}}));
}

TEST(GgufWeights, ListAllTensors) {
  const Gguf model = model_of({{"a", BlockType::bf16, {2, 3}, 0, 64, 12},
                               {"none", BlockType::f32, {0, 3}, 0, 96, 0},
                               {"b", BlockType::q2_0, {4, 256}, 0, 96, 288},
                               {"c", BlockType::i8, {}, 0, 384, 1}});
  const WeightTable table = gguf_weights(model);
  EXPECT_EQ(table.files, model.files);
  ASSERT_EQ(table.tensors.size(), 3u);
  EXPECT_EQ(*table.find("a"), (TensorRange{0, 64, {DType::bf16, {2, 3}}}));
  EXPECT_EQ(*table.find("b"), (TensorRange{0, 96, {DType::u8, {4, 72}}}));
  EXPECT_EQ(*table.find("c"), (TensorRange{0, 384, {DType::u8, {1}}}));
}

TEST(GgufWeights, RejectTensorsWithoutValues) {
  const auto view_of = [](const GgufTensor& tensor) {
    return gguf_view(model_of({tensor}), tensor);
  };
  const auto opaque = view_of({"b", BlockType::q2_0, {4, 256}, 0, 96, 288});
  expect_error(opaque, "gguf.no_values", "cannot decode q2_0[4,256]");
  EXPECT_EQ(opaque.error()[0].place.tensor, "b");
  EXPECT_EQ(opaque.error()[0].place.file, "m.gguf");
  expect_error(view_of({"b", BlockType::f64, {4}, 0, 96, 32}), "gguf.no_values", "f64[4]");
  expect_error(view_of({"b", BlockType::f32, {4, 0}, 0, 96, 0}), "gguf.no_values", "f32[4,0]");
  const int64_t large = int64_t{1} << 48;
  EXPECT_EQ(gguf_range({"b", BlockType::i8, {large}, 0, 96, 0})->type, (Type{DType::u8, {large}}));
  EXPECT_EQ(gguf_range({"b", BlockType::f64, {large}, 0, 96, 0}), std::nullopt);
}

}  // namespace
}  // namespace moec
