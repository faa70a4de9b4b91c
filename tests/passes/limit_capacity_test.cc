// Expert capacity, compared with a direct count: all layouts and routing forms, padding after the
// tokens, and capacities up to one that drops no token.
#include <tuple>

#include "tests/passes/pass_testing.h"

namespace moec {
namespace {

constexpr int64_t kCappedExperts = 6, kCappedTokens = 9;

Shard capped_router(Layout layout, const Router& router, DType dtype = DType::f32) {
  Builder b("router", Form::model);
  ValueId logits = b.input("x", token_type(dtype, layout, kCappedExperts, kCappedTokens));
  b.output("routing", b.emit(router, {logits}, "routing_weights"));
  return b.finish();
}

std::vector<float> rows_of_tokens(const Tensor& tensor) {
  if (tensor.type.layout == Layout::rows) return tensor.data;
  std::vector<float> rows(tensor.data.size());
  for (int64_t e = 0; e < kCappedExperts; ++e)
    for (int64_t t = 0; t < kCappedTokens; ++t)
      rows[static_cast<size_t>(t * kCappedExperts + e)] =
          tensor.data[static_cast<size_t>(e * kCappedTokens + t)];
  return rows;
}

// Keeps the weights [tokens, experts] of the first `most` tokens per expert.
std::vector<float> first_of_each(std::vector<float> weights, int64_t most) {
  for (int64_t e = 0; e < kCappedExperts; ++e) {
    int64_t taken = 0;
    for (int64_t t = 0; t < kCappedTokens; ++t) {
      float& weight = weights[static_cast<size_t>(t * kCappedExperts + e)];
      if (weight != 0 && ++taken > most) weight = 0;
    }
  }
  return weights;
}

using CapacityAxes = std::tuple<Layout, RoutingForm, Renorm, double>;
class LimitCapacity : public testing::TestWithParam<CapacityAxes> {};

TEST_P(LimitCapacity, KeepsTheFirstTokensPerExpert) {
  const auto [layout, form, renorm, factor] = GetParam();
  const Router router{.top_k = 2, .renorm = renorm, .scale = 1.5};
  const Shard shard = capped_router(layout, router);
  PassOptions options;
  options.routing = form;
  const auto inputs = seeded_inputs(shard, 7);
  const std::vector<float> all =
      rows_of_tokens(outputs_of(run_default(shard, options), inputs).at(0));
  options.capacity = factor;
  const std::vector<float> capped =
      rows_of_tokens(outputs_of(run_default(shard, options), inputs).at(0));
  const int64_t most = expert_capacity(factor, kCappedTokens, 2, kCappedExperts);
  EXPECT_EQ(capped, first_of_each(all, most));
  if (factor < 1) EXPECT_NE(capped, all) << "nothing is dropped: the check would see nothing";
}

INSTANTIATE_TEST_SUITE_P(
    Forms, LimitCapacity,
    testing::Combine(testing::Values(Layout::channels, Layout::bc1s, Layout::rows),
                     testing::Values(RoutingForm::rank, RoutingForm::iterate, RoutingForm::topk),
                     testing::Values(Renorm::sum, Renorm::none), testing::Values(0.4, 1.25, 8.0)));

TEST(LimitCapacity, RoundsTheCapacityUp) {
  EXPECT_EQ(expert_capacity(1.25, 64, 2, 16), 10);
  EXPECT_EQ(expert_capacity(1.0, 9, 2, 6), 3);
  EXPECT_EQ(expert_capacity(1.01, 9, 2, 6), 4);
  EXPECT_EQ(expert_capacity(1e-9, 9, 2, 6), 1);
  EXPECT_EQ(expert_capacity(100, 9, 2, 6), 9);
  EXPECT_EQ(expert_capacity(1e300, 9, 2, 6), 9);
}

TEST(LimitCapacity, WarnsOnlyIfTokensMayDrop) {
  const Shard shard = capped_router(Layout::channels, {.top_k = 2, .renorm = Renorm::sum});
  PassContext context;
  context.options.capacity = 1.25;
  run_passes(shard, "limit_capacity", context);
  ASSERT_EQ(context.notes.size(), 1u);
  EXPECT_EQ(context.notes[0].code, "routing.capacity");
  context.notes.clear();
  context.options.capacity = 3;
  EXPECT_EQ(run_passes(shard, "limit_capacity", context), shard);
  EXPECT_TRUE(context.notes.empty());
}

}  // namespace
}  // namespace moec
