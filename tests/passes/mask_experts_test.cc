// Tests that masking experts is equivalent to removing them. Compares the pass with routers of
// fewer experts, and with routers that have a choice bias far below all scores.
#include <numeric>
#include <tuple>

#include "tests/passes/pass_testing.h"

namespace moec {
namespace {

constexpr int64_t kMaskedExperts = 12, kMaskedTokens = 7, kWidth = 16;

std::vector<int64_t> all_experts() {
  std::vector<int64_t> all(kMaskedExperts);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Returns the logits of the given experts. f16 uses a projection, because the lowering uses the
// projection's operands. f32 slices the logits of all experts, because a smaller projection may sum
// in another order.
ValueId logits_of(Builder& b, Layout layout, DType dtype, const std::vector<int64_t>& experts) {
  const bool projects = dtype == DType::f16;
  const ValueId x =
      b.input("x", token_type(dtype, layout, projects ? kWidth : kMaskedExperts, kMaskedTokens));
  std::vector<ValueId> logits;
  std::vector<WeightView> rows;
  for (const int64_t e : experts) {
    rows.push_back(seeded_view(static_cast<uint64_t>(e), {DType::f32, {1, kWidth}}));
    if (!projects) logits.push_back(b.slice(x, kChannelAxis, e, 1));
  }
  if (!projects) return b.concat(std::move(logits), kChannelAxis, "router");
  const WeightView matrix = concat_view(0, std::move(rows));
  return b.linear(x, b.weight(then(matrix, CastStep{dtype}), "router.weight"), "router");
}

// Builds a router of the given experts, optionally with biases. A bias of -1e9 excludes the experts
// in `barred`.
Shard masked_router(const Router& router, Layout layout, DType dtype, bool biased,
                    const std::vector<int64_t>& experts, const std::vector<int64_t>& barred = {}) {
  Builder b("router", Form::model);
  std::vector<ValueId> operands = {logits_of(b, layout, dtype, experts)};
  std::vector<WeightView> biases;
  for (const int64_t e : experts) {
    const bool is_barred = std::find(barred.begin(), barred.end(), e) != barred.end();
    const WeightView noise = seeded_view(static_cast<uint64_t>(50 + e), {DType::f32, {1}});
    biases.push_back(is_barred ? splat_view(-1e9, {DType::f32, {1}})
                               : then(noise, ScaleStep{biased ? 0.2 : 0}));
  }
  const WeightView bias = then(concat_view(0, std::move(biases)), CastStep{dtype});
  if (biased || !barred.empty()) operands.push_back(b.weight(bias, "router.choice_bias"));
  b.output("routing", b.emit(router, operands, "routing_weights"));
  return b.finish();
}

std::vector<float> masked_weights(const Shard& shard, const PassOptions& options = {}) {
  const Shard placed = run_default(shard, options);
  return outputs_of(placed, seeded_inputs(shard, 3)).at(0).data;
}

using MaskAxes = std::tuple<Layout, RoutingForm, DType>;

class MaskExperts : public testing::TestWithParam<MaskAxes> {
 protected:
  // Expects the routing weights of a router of the kept experts, scattered to all experts.
  void expect_gathered(const Router& router, bool biased, const std::vector<int64_t>& kept) {
    const auto [layout, form, dtype] = GetParam();
    PassOptions options{.routing = form};
    const Shard few = masked_router(router, layout, dtype, biased, kept);
    const std::vector<float> wanted = masked_weights(few, options);
    options.kept_experts = {kept};
    const Shard all = masked_router(router, layout, dtype, biased, all_experts());
    const std::vector<float> got = masked_weights(all, options);
    const auto count = std::ssize(kept);
    const auto at = [&, layout = layout](const std::vector<float>& weights, int64_t experts,
                                         int64_t e, int64_t t) {
      return weights[is_channel_major(layout) ? e * kMaskedTokens + t : t * experts + e];
    };
    float sum = 0;
    for (int64_t t = 0; t < kMaskedTokens; ++t)
      for (int64_t e = 0; e < kMaskedExperts; ++e) {
        const auto found = std::find(kept.begin(), kept.end(), e);
        const float weight = found == kept.end() ? 0 : at(wanted, count, found - kept.begin(), t);
        EXPECT_EQ(at(got, kMaskedExperts, e, t), weight) << "expert " << e << " of token " << t;
        sum += weight;
      }
    EXPECT_GT(sum, 0);
  }
};

TEST_P(MaskExperts, EqualsARouterOfFewerExperts) {
  for (const bool biased : {false, true})
    for (const std::vector<int64_t>& kept :
         {std::vector<int64_t>{1, 2, 3, 5, 8, 11}, {0, 4, 7}, {9, 10, 11}}) {
      for (const Score score : {Score::sigmoid, Score::softmax_selected, Score::sigmoid_selected})
        expect_gathered({.score = score, .top_k = 3, .scale = 1.5}, biased, kept);
      expect_gathered({.score = Score::sigmoid, .top_k = 3, .renorm = Renorm::sum}, biased, kept);
    }
}

TEST_P(MaskExperts, KeepsGroupsOfFewerExperts) {
  for (const GroupScore group_score : {GroupScore::max, GroupScore::top2_sum})
    expect_gathered({.score = Score::sigmoid,
                     .top_k = 3,
                     .renorm = Renorm::sum,
                     .groups = 3,
                     .groups_kept = 2,
                     .group_score = group_score},
                    true, {0, 2, 4, 7, 10, 11});
}

TEST_P(MaskExperts, HidesMaskedExpertsFromSparsemixer) {
  for (const double eps : {0.0, 0.01, 0.3})
    expect_gathered({.score = Score::sparsemixer, .top_k = 2, .eps = eps}, false, {1, 4, 6, 9});
}

INSTANTIATE_TEST_SUITE_P(AllForms, MaskExperts,
                         testing::Combine(testing::Values(Layout::rows, Layout::channels),
                                          testing::Values(RoutingForm::rank, RoutingForm::iterate,
                                                          RoutingForm::topk, RoutingForm::host),
                                          testing::Values(DType::f32, DType::f16)),
                         [](const auto& info) {
                           return std::string(layout_name(std::get<0>(info.param))) + "_" +
                                  std::string(enum_name(std::get<1>(info.param))) + "_" +
                                  std::string(dtype_name(std::get<2>(info.param)));
                         });

// Scores keep the softmax over all experts, and groups may keep different numbers of experts.
TEST(MaskExpertsByDefinition, EqualsAnUnreachableBias) {
  const std::vector<int64_t> kept = {0, 2, 3, 8, 9, 10}, barred = {1, 4, 5, 6, 7, 11};
  for (const RoutingForm form : {RoutingForm::rank, RoutingForm::iterate, RoutingForm::topk})
    for (const Score score : {Score::softmax, Score::sigmoid, Score::softmax_selected})
      for (const Renorm renorm : {Renorm::none, Renorm::sum})
        for (const GroupScore group_score : {GroupScore::max, GroupScore::top2_sum}) {
          const bool selects = score == Score::softmax_selected;
          if (selects && renorm != Renorm::none) continue;
          const Router router{.score = score,
                              .top_k = 3,
                              .renorm = renorm,
                              .groups = selects ? 1 : 3,
                              .groups_kept = selects ? 1 : 2,
                              .group_score = group_score};
          const Shard defined =
              masked_router(router, Layout::rows, DType::f32, true, all_experts(), barred);
          const Shard all = masked_router(router, Layout::rows, DType::f32, true, all_experts());
          const auto inputs = seeded_inputs(all, 3);
          const std::vector<float> wanted = outputs_of(defined, inputs).at(0).data;
          const std::vector<float> got =
              masked_weights(all, {.routing = form, .kept_experts = {kept}});
          for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6);
          for (int64_t t = 0; t < kMaskedTokens; ++t)
            for (const int64_t e : barred)
              EXPECT_EQ(got[static_cast<size_t>(t * kMaskedExperts + e)], 0);
        }
}

TEST(MaskExpertsByDefinition, RequiresOneRouterPerMask) {
  const Shard shard = masked_router({.top_k = 2}, Layout::rows, DType::f32, false, all_experts());
  PassContext context{{.kept_experts = {{0, 1}, {2, 3}}}, {}};
  const auto result = run_pipeline(shard, default_pipeline(context.options), context,
                                   {.dump_dir = testing::TempDir()});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().front().code, "router.no_choice");
}

}  // namespace
}  // namespace moec
