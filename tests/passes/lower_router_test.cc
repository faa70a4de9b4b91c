#include <tuple>

#include "tests/passes/pass_testing.h"

namespace moec {
namespace {

constexpr RoutingForm kExactForms[] = {RoutingForm::rank, RoutingForm::iterate, RoutingForm::topk,
                                       RoutingForm::host, RoutingForm::op};

Shard router_shard(const Router& router, Layout layout, bool choice_bias, int64_t experts = 12,
                   int64_t tokens = 6, DType dtype = DType::f32) {
  Builder b("router", Form::model);
  std::vector<ValueId> operands = {b.input("logits", token_type(dtype, layout, experts, tokens))};
  if (choice_bias) operands.push_back(seeded_weight(b, 9, dtype, {experts}, 0.2, "choice_bias"));
  b.output("routing", b.emit(router, operands, "routing"));
  return b.finish();
}

Shard lower(const Shard& shard, RoutingForm form) {
  return run_passes(shard, "lower_router", {.routing = form});
}

using RouterAxes = std::tuple<Layout, RoutingForm, bool>;

class LowerRouter : public testing::TestWithParam<RouterAxes> {};

TEST_P(LowerRouter, PreservesValues) {
  const auto [layout, form, choice_bias] = GetParam();
  for (Score score : {Score::softmax, Score::sigmoid, Score::sigmoid_selected})
    for (Renorm renorm : {Renorm::none, Renorm::sum, Renorm::sum_plus_eps, Renorm::max_eps})
      for (int64_t groups : {1, 4})
        for (GroupScore group_score : {GroupScore::max, GroupScore::top2_sum}) {
          const Router router{.score = score,
                              .top_k = 3,
                              .renorm = renorm,
                              .eps = renorm == Renorm::max_eps ? 0.9 : 0.125,
                              .scale = 2.5,
                              .groups = groups,
                              .groups_kept = groups == 1 ? 1 : 2,
                              .group_score = group_score};
          const Shard before = router_shard(router, layout, choice_bias);
          const Shard after = lower(before, form);
          EXPECT_EQ(count_ops<Router>(after), 0u);
          expect_same_values(before, after, 1e-6);
        }
}

TEST_P(LowerRouter, PreservesValuesOfSoftmaxSelected) {
  const auto [layout, form, choice_bias] = GetParam();
  for (int64_t k : {1, 4, 12}) {
    const Router router{.score = Score::softmax_selected, .top_k = k, .scale = 0.5};
    const Shard before = router_shard(router, layout, choice_bias);
    expect_same_values(before, lower(before, form), 1e-6);
  }
}

TEST_P(LowerRouter, PreservesValuesOfSparsemixer) {
  const auto [layout, form, choice_bias] = GetParam();
  if (choice_bias) return;
  for (double eps : {0.0, 0.01, 0.3, 2.0})
    for (int64_t experts : {2, 12}) {
      const Router router{.score = Score::sparsemixer, .top_k = 2, .eps = eps, .scale = 1.5};
      const Shard before = router_shard(router, layout, false, experts);
      expect_same_values(before, lower(before, form), 1e-6);
    }
}

std::string router_case_name(const testing::TestParamInfo<RouterAxes>& info) {
  const auto& [layout, form, choice_bias] = info.param;
  return std::string(layout_name(layout)) + "_" + std::string(enum_name(form)) +
         (choice_bias ? "_biased" : "");
}

INSTANTIATE_TEST_SUITE_P(AllForms, LowerRouter,
                         testing::Combine(testing::ValuesIn(kTokenLayouts),
                                          testing::ValuesIn(kExactForms), testing::Bool()),
                         router_case_name);

TEST(LowerRouterOps, UseTopkOnlyWithNativeOps) {
  const Router router{.top_k = 2, .groups = 3, .groups_kept = 2};
  for (RoutingForm form : kExactForms)
    EXPECT_EQ(count_ops<TopK>(lower(router_shard(router, Layout::rows, false), form)),
              form == RoutingForm::topk || form == RoutingForm::op ? 2u : 0u);
}

TEST(LowerRouterOps, UseOnlyLessComparisonsInIterate) {
  const Router router{
      .top_k = 3, .groups = 3, .groups_kept = 2, .group_score = GroupScore::top2_sum};
  const Shard after = lower(router_shard(router, Layout::channels, true), RoutingForm::iterate);
  EXPECT_EQ(count_ops<Select>(after), 0u);
  for (const Op& op : after.ops)
    if (const auto* compare = std::get_if<Compare>(&op.data)) {
      EXPECT_EQ(compare->fn, CompareFn::less);
    }
}

TEST(LowerRouterOps, KeepTheRankOpCount) {
  auto ops = [](int64_t k) {
    return lower(router_shard({.top_k = k}, Layout::rows, false), RoutingForm::rank).ops.size();
  };
  EXPECT_EQ(ops(1), ops(11));
}

TEST(LowerRouterOps, GrowConstantsLinearlyWithExperts) {
  const Shard after =
      lower(router_shard({.top_k = 2}, Layout::rows, false, 100), RoutingForm::rank);
  for (const Op& op : after.ops)
    if (const auto* constant = std::get_if<Constant>(&op.data)) {
      EXPECT_LE(constant->values.size(), 100u);
    }
}

TEST(FullSoftmax, WeightsAllExpertsAndReportsInexactness) {
  PassContext context{{.routing = RoutingForm::full_softmax}, {}};
  const Shard before = router_shard({.top_k = 2}, Layout::rows, false);
  const Shard after = run_passes(before, "lower_router", context);
  ASSERT_EQ(context.notes.size(), 1u);
  EXPECT_EQ(context.notes[0].code, "routing.inexact");
  EXPECT_EQ(context.notes[0].place.op, "routing");
  const std::vector<Tensor> outputs = outputs_of(after, seeded_inputs(after, 1));
  for (float weight : outputs[0].data) EXPECT_GT(weight, 0);
}

// Uses biases and logits of both signs far beyond the range of f16.
TEST(LowerRouterLimits, StayFiniteBeyondTheElementType) {
  for (RoutingForm form : kExactForms)
    for (int64_t groups : {1, 4}) {
      const Router biased{.score = Score::sigmoid,
                          .top_k = 3,
                          .groups = groups,
                          .groups_kept = groups == 1 ? 1 : 2,
                          .group_score = GroupScore::top2_sum};
      Builder b("router", Form::model);
      ValueId logits = b.input("logits", token_type(DType::f32, Layout::rows, 12, 6));
      ValueId bias = seeded_weight(b, 9, DType::f32, {12}, 2e4, "choice_bias");
      b.output("routing", b.emit(biased, {logits, bias}, "routing"));
      const Shard before = b.finish();
      expect_same_values(before, lower(before, form), 1e-6);
    }
  for (RoutingForm form : kExactForms)
    for (const Router& router : {Router{.score = Score::softmax_selected, .top_k = 3},
                                 Router{.score = Score::sparsemixer, .top_k = 2, .eps = 0.3}}) {
      const Shard before = router_shard(router, Layout::rows, false);
      std::vector<Tensor> inputs = seeded_inputs(before, 1);
      for (float& logit : inputs[0].data) logit *= 1e6f;
      expect_same_values(before, lower(before, form), inputs, 1e-6);
    }
}

TEST(LowerRouterLimits, RejectTooManyExperts) {
  for (auto [dtype, most] : {std::pair{DType::f16, 2048}, {DType::bf16, 256}})
    for (int64_t experts : {most, most + 1}) {
      const Shard shard = router_shard({.top_k = 2}, Layout::rows, false, experts, 1, dtype);
      PassContext context;
      auto result = lower_router(shard, context);
      EXPECT_EQ(result.has_value(), experts == most);
      if (!result) {
        EXPECT_TRUE(has_code(result.error(), "routing.too_many_experts"));
      }
    }
}

// Half precision produces many equal scores. Every exact form must break ties in the same way, and
// `iterate`, which lowers the scores of chosen experts, must not change the other scores.
TEST(LowerRouterHalfPrecision, AgreeBitwiseAcrossExactForms) {
  for (Score score : {Score::softmax, Score::sigmoid, Score::softmax_selected,
                      Score::sigmoid_selected, Score::sparsemixer})
    for (int64_t groups : {1, 8}) {
      const bool mixed = score == Score::sparsemixer;
      const bool selected = score == Score::softmax_selected || mixed;
      if (selected && groups > 1) continue;
      const Router router{.score = score,
                          .top_k = mixed ? 2 : 6,
                          .renorm = selected ? Renorm::none : Renorm::sum_plus_eps,
                          .eps = mixed ? 0.25 : 1e-20,
                          .groups = groups,
                          .groups_kept = groups == 1 ? 1 : 3};
      const Shard before = router_shard(router, Layout::channels, !mixed, 64, 40, DType::f16);
      const std::vector<Tensor> inputs = seeded_inputs(before, 3);
      const std::vector<Tensor> rank = outputs_of(lower(before, RoutingForm::rank), inputs);
      EXPECT_EQ(outputs_of(lower(before, RoutingForm::iterate), inputs), rank);
      EXPECT_EQ(outputs_of(lower(before, RoutingForm::topk), inputs), rank);
      size_t chosen = 0;
      for (float weight : rank[0].data) {
        EXPECT_TRUE(std::isfinite(weight));
        chosen += weight > 0;
      }
      EXPECT_EQ(chosen, static_cast<size_t>(router.top_k) * 40u);
    }
}

}  // namespace
}  // namespace moec
