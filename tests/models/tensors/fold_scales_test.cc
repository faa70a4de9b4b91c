// Tests that powers of two move between up and down projections.
#include "models/tensors/fold_scales.h"

#include <gtest/gtest.h>

#include "ir/graph/builder.h"

namespace moec {
namespace {

Shard two_mlps(Activation activation) {
  Builder b("mlps", Form::model);
  Gating gating{.activation = activation};
  if (activation == Activation::clamped_swiglu) gating.limit = 7, gating.alpha = 1.7;
  const auto weight = [&](uint64_t seed, Dims dims) {
    return b.weight(seeded_view(seed, {DType::f32, std::move(dims)}));
  };
  ValueId x = b.input("x", token_type(DType::f32, Layout::rows, 4, 2));
  ValueId routing = b.input("routing", token_type(DType::f32, Layout::rows, 2, 2));
  std::vector<ValueId> experts = {x, routing};
  for (uint64_t e = 0; e < 2; ++e)
    for (const Dims& dims : {Dims{6, 4}, Dims{6, 4}, Dims{4, 6}})
      experts.push_back(weight(experts.size(), dims));
  ValueId sum = b.emit(SoftMoe{.experts = 2, .gating = gating}, experts, "moe");
  std::vector<ValueId> shared = {sum,
                                 weight(20, {6, 4}),
                                 weight(21, {6, 4}),
                                 weight(22, {4, 6}),
                                 weight(23, {6}),
                                 weight(24, {6}),
                                 weight(25, {4})};
  b.output("y", b.emit(GatedMlp{gating}, shared, "shared"));
  return b.finish();
}

std::vector<std::string> views_of(const Shard& shard) {
  std::vector<std::string> views;
  for (const Op& op : shard.ops)
    if (const auto* weight = std::get_if<Weight>(&op.data))
      views.push_back(to_string(weight->view));
  return views;
}

TEST(FoldScales, DividesUpAndMultipliesDown) {
  const Shard shard = with_folded_scales(two_mlps(Activation::silu),
                                         {{"seeded(6):f32[6,4]", 3}, {"seeded(21):f32[6,4]", -2}});
  EXPECT_EQ(views_of(shard),
            (std::vector<std::string>{
                "seeded(2):f32[6,4]", "seeded(3):f32[6,4]", "seeded(4):f32[4,6]",
                "seeded(5):f32[6,4]", "seeded(6):f32[6,4] | scale(0.125)",
                "seeded(7):f32[4,6] | scale(8)", "seeded(20):f32[6,4]",
                "seeded(21):f32[6,4] | scale(4)", "seeded(22):f32[4,6] | scale(0.25)",
                "seeded(23):f32[6]", "seeded(24):f32[6] | scale(4)", "seeded(25):f32[4]"}));
}

// Experts and an MLP with only an up and a down projection.
Shard mlps_without_gates() {
  Builder b("mlps", Form::model);
  const Gating gating{.activation = Activation::relu2};
  const auto weight = [&](uint64_t seed, Dims dims) {
    return b.weight(seeded_view(seed, {DType::f32, std::move(dims)}));
  };
  ValueId x = b.input("x", token_type(DType::f32, Layout::rows, 4, 2));
  ValueId routing = b.input("routing", token_type(DType::f32, Layout::rows, 2, 2));
  ValueId sum = b.emit(
      SoftMoe{.experts = 2, .gating = gating},
      {x, routing, weight(2, {6, 4}), weight(3, {4, 6}), weight(4, {6, 4}), weight(5, {4, 6})},
      "moe");
  b.output("y", b.emit(GatedMlp{gating}, {sum, weight(6, {6, 4}), weight(7, {4, 6})}, "shared"));
  return b.finish();
}

TEST(FoldScales, SkipsMlpsWithoutAGate) { EXPECT_TRUE(up_and_down(mlps_without_gates()).empty()); }

TEST(FoldScales, SkipsClampedActivations) {
  EXPECT_EQ(up_and_down(two_mlps(Activation::silu)).size(), 3u);
  EXPECT_TRUE(up_and_down(two_mlps(Activation::clamped_swiglu)).empty());
}

TEST(FoldScales, ScalesBeforeTheCast) {
  const Type type{DType::bf16, {2, 2}};
  EXPECT_EQ(to_string(scaled(then(tensor_view("w", type), CastStep{DType::f16}), -1)),
            "@w:bf16[2,2] | cast(f32) | scale(0.5) | cast(f16)");
  EXPECT_EQ(to_string(scaled(tensor_view("w", type), 1)), "@w:bf16[2,2] | scale(2)");
}

}  // namespace
}  // namespace moec
