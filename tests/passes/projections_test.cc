// lower_gated_mlp, linear_to_conv and linear_to_matmul.
#include "tests/passes/pass_testing.h"

namespace moec {
namespace {

Shard mlp_shard(Layout layout, bool biases, bool sigmoid_gate) {
  Builder b("mlp", Form::model);
  ValueId x = b.input("hidden", token_type(DType::f32, layout, 10, 4));
  std::vector<ValueId> operands = {x, seeded_weight(b, 1, DType::f32, {6, 10}, 1, "gate"),
                                   seeded_weight(b, 2, DType::f32, {6, 10}, 1, "up"),
                                   seeded_weight(b, 3, DType::f32, {10, 6}, 1, "down")};
  if (biases)
    for (const int64_t channels : {6, 6, 10})
      operands.push_back(seeded_weight(b, 5, DType::f32, {channels}, 1, "bias"));
  if (sigmoid_gate) operands.push_back(seeded_weight(b, 4, DType::f32, {1, 10}, 1, "shared_gate"));
  b.output("mlp_out", b.emit(GatedMlp{}, operands, "mlp"));
  return b.finish();
}

TEST(LowerGatedMlp, PreservesValues) {
  for (Layout layout : kTokenLayouts)
    for (bool biases : {false, true})
      for (bool sigmoid_gate : {false, true}) {
        const Shard before = mlp_shard(layout, biases, sigmoid_gate);
        const Shard after = run_passes(before, "lower_gated_mlp");
        EXPECT_EQ(after.form, Form::lowered);
        EXPECT_EQ(count_ops<Linear>(after), sigmoid_gate ? 4u : 3u);
        expect_same_values(before, after);
      }
}

Shard linear_shard(Layout layout, bool bias) {
  Builder b("linear", Form::lowered);
  ValueId x = b.input("x", token_type(DType::f32, layout, 6, 4));
  std::vector<ValueId> operands = {x, seeded_weight(b, 1, DType::f32, {9, 6}, 1, "w")};
  if (bias) operands.push_back(seeded_weight(b, 2, DType::f32, {9}, 1, "bias"));
  b.output("y", b.emit(Linear{}, operands, "y"));
  return b.finish();
}

TEST(LinearToConv, PreservesValues) {
  for (Layout layout : kTokenLayouts)
    for (bool bias : {false, true}) {
      const Shard before = linear_shard(layout, bias);
      const Shard after = run_passes(before, "linear_to_conv");
      EXPECT_EQ(after.form, Form::static_ops);
      EXPECT_EQ(count_ops<Conv>(after), 1u);
      EXPECT_EQ(count_ops<Transpose>(after), is_channel_major(layout) ? 0u : 2u);
      expect_same_values(before, after);
    }
}

TEST(LinearToMatmul, PreservesValues) {
  for (Layout layout : kTokenLayouts)
    for (bool bias : {false, true}) {
      const Shard before = linear_shard(layout, bias);
      const Shard after = run_passes(before, "linear_to_matmul");
      EXPECT_EQ(after.form, Form::static_ops);
      EXPECT_EQ(count_ops<MatMul>(after), 1u);
      EXPECT_EQ(count_ops<Conv>(after), 0u);
      expect_same_values(before, after);
    }
}

TEST(LinearToMatmul, LeavesNoTransposeAfterFolding) {
  const Shard after =
      run_passes(linear_shard(Layout::rows, true), "linear_to_matmul,fold_weight_views");
  EXPECT_EQ(count_ops<Transpose>(after), 0u);
  EXPECT_EQ(count_ops<Reshape>(after), 0u);
  expect_same_values(linear_shard(Layout::rows, true), after);
}

}  // namespace
}  // namespace moec
