#include "tests/passes/pass_testing.h"

namespace moec {
namespace {

Shard norm_shard(DType dtype, Layout layout) {
  Builder b("norm", Form::model);
  ValueId x = b.input("x", token_type(dtype, layout, 10, 3));
  ValueId w = seeded_weight(b, 3, dtype, {10}, 1, "w");
  b.output("y", b.emit(RmsNorm{1e-6}, {x, w}, "y"));
  return b.finish();
}

TEST(LowerRmsNorm, KeepsValues) {
  for (Layout layout : kTokenLayouts) {
    const Shard before = norm_shard(DType::f32, layout);
    const Shard after = run_passes(before, "lower_rms_norm");
    EXPECT_EQ(count_ops<RmsNorm>(after), 0u);
    expect_same_values(before, after, 1e-6);
  }
}

TEST(LowerRmsNorm, KeepsValuesInHalfPrecision) {
  for (DType dtype : {DType::f16, DType::bf16})
    for (Layout layout : kTokenLayouts) {
      const Shard before = norm_shard(dtype, layout);
      expect_same_values(before, run_passes(before, "lower_rms_norm"),
                         dtype == DType::f16 ? 2e-3 : 2e-2);
    }
}

TEST(LowerRmsNorm, StaysFiniteWhereSquaresOverflowF16) {
  const Shard before = norm_shard(DType::f16, Layout::channels);
  std::vector<Tensor> inputs = seeded_inputs(before, 5);
  for (float& value : inputs[0].data) value = std::round(value * 8) * 4096;
  expect_same_values(before, run_passes(before, "lower_rms_norm"), inputs, 2e-3);
}

TEST(LowerRmsNorm, GivesZeroForZeroInF16) {
  const Shard shard = run_passes(norm_shard(DType::f16, Layout::rows), "lower_rms_norm");
  std::vector<Tensor> inputs = seeded_inputs(shard, 5);
  for (float& value : inputs[0].data) value = 0;
  const std::vector<Tensor> outputs = outputs_of(shard, inputs);
  for (float value : outputs[0].data) EXPECT_EQ(value, 0);
}

}  // namespace
}  // namespace moec
