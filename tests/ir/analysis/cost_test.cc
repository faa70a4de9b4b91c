#include "ir/analysis/cost.h"

#include <gtest/gtest.h>

#include "ir/graph/builder.h"

namespace moec {
namespace {

Type tokens(int64_t channels) { return token_type(DType::f32, Layout::rows, channels, 3); }

TEST(Cost, CountsLinearAndElementwiseOps) {
  Builder b("s", Form::model);
  ValueId x = b.input("x", tokens(4));
  ValueId w = b.weight(seeded_view(1, {DType::f32, {5, 4}}));
  b.output("y", b.unary(UnaryFn::exp, b.linear(x, w)));
  Shard shard = b.finish();
  EXPECT_EQ(count_cost(shard).macs_dense, 3 * 4 * 5);
  EXPECT_EQ(weight_bytes(shard), 80);
  EXPECT_EQ(op_histogram(shard).at("exp"), 1);
  EXPECT_EQ(peak_activation_bytes(shard), 4 * (3 * 5 + 3 * 5));  // x is dead when exp runs
}

// Two outputs of two tokens, each with 3 taps of 4 channels.
TEST(Cost, CountsTapsOfBothLayouts) {
  for (const Layout layout : {Layout::channels, Layout::bc1s}) {
    const bool is_bc1s = layout == Layout::bc1s;
    Builder b("s", Form::lowered);
    const ValueId x = b.input("x", token_type(DType::f32, layout, 4, 4));
    const Dims kernel = is_bc1s ? Dims{2, 4, 1, 3} : Dims{2, 4, 3, 1};
    const ValueId w = b.weight(seeded_view(1, {DType::f32, kernel}));
    b.output("y", b.emit(Conv{}, {x, w}));
    EXPECT_EQ(count_cost(b.finish()).macs_dense, 2 * 2 * 3 * 4);
  }
}

// If the view decodes a weight, the file stores the bytes before decoding.
TEST(Cost, CountsFileBytesBeforeDecoding) {
  Builder b("s", Form::model);
  const ValueId x = b.input("x", tokens(512));
  const WeightView blocks = tensor_view("w", {DType::u8, {5, 288}});
  const ValueId w = b.weight(then(blocks, UnblockStep{BlockType::q4_k}));
  b.output("y", b.linear(x, w));
  const Shard shard = b.finish();
  EXPECT_EQ(weight_bytes(shard), 5 * 512 * 4);
  EXPECT_EQ(filed_weight_bytes(shard), 5 * 288);
}

TEST(Cost, ScalesSoftMoeByTopK) {
  Builder b("s", Form::model);
  ValueId x = b.input("x", tokens(4));
  ValueId routing = b.input("routing", tokens(2));
  std::vector<ValueId> operands = {x, routing};
  for (uint64_t e = 0; e < 2; ++e)
    for (const Dims& dims : {Dims{6, 4}, Dims{6, 4}, Dims{4, 6}})
      operands.push_back(b.weight(seeded_view(e, {DType::f32, dims})));
  b.output("y", b.emit(SoftMoe{.experts = 2}, operands));
  ShardCost cost = count_cost(b.finish(), 1, 2);
  EXPECT_EQ(cost.macs_dense, 2 * 3 * 24 * 3);
  EXPECT_EQ(cost.macs_active, cost.macs_dense / 2);
  EXPECT_EQ(cost.bytes_active, cost.bytes_dense / 2);
}

TEST(Cost, ScalesMoeByTopK) {
  Builder b("s", Form::static_ops);
  const ValueId x = b.input("x", tokens(64)), routing = b.input("routing", tokens(2));
  const ValueId gate_up =
      b.weight(seeded_view(1, {DType::f32, {2, 64, 64}}), "gate_up", AffineEncoding{8, {1, 1, 64}});
  const ValueId down = b.weight(seeded_view(2, {DType::f32, {2, 64, 32}}));
  b.output("y", b.emit(Moe{1}, {x, routing, gate_up, down}));
  const ShardCost cost = count_cost(b.finish(), 1, 2);
  EXPECT_EQ(cost.macs_dense, 3 * 2 * (64 * 64 + 64 * 32));
  EXPECT_EQ(cost.macs_active, cost.macs_dense / 2);
  EXPECT_EQ(cost.bytes_dense, 2 * 64 * (64 + 4) + 2 * 64 * 32 * 4);
  EXPECT_EQ(cost.bytes_active, cost.bytes_dense / 2);
}

TEST(Cost, CountsAttentionScoresAndValues) {
  Builder b("s", Form::model);
  ValueId q = b.input("q", tokens(8)), k = b.input("k", tokens(4)), v = b.input("v", tokens(4));
  ValueId mask = b.input("mask", {DType::f32, {1, 1, 3, 3}});
  Attention attention{.heads = 2, .kv_heads = 1, .head_dim = 4, .rope = RopeStyle::none};
  b.output("y", b.emit(attention, {q, k, v, mask}));
  EXPECT_EQ(count_cost(b.finish()).macs_dense, 2 * (2 * 3 * 3 * 4));
}

}  // namespace
}  // namespace moec
