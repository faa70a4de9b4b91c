// Runs encode_weights on the shards of all goldens and checks the analyses of encoded shards.
#include <gmock/gmock.h>

#include "ir/analysis/cost.h"
#include "ir/analysis/find_experts.h"
#include "models/shards/weight_uses.h"
#include "tests/models/distinct_shards.h"
#include "tests/passes/golden_plans.h"
#include "tests/passes/moe_shards.h"

namespace moec {
namespace {

std::vector<Tensor> outputs_with(const Shard& shard, const Plan& plan) {
  auto executor = Executor::create(shard, plan.weights);
  EXPECT_TRUE(executor.has_value()) << render(executor.error());
  if (!executor) return {};
  auto outputs = executor->run(seeded_inputs(shard, 1));
  EXPECT_TRUE(outputs.has_value()) << render(outputs.error());
  return outputs.value_or(std::vector<Tensor>());
}

size_t count_encoded(const Shard& shard) {
  size_t count = 0;
  for (const Op& op : shard.ops) {
    const auto* weight = std::get_if<Weight>(&op.data);
    count += weight && !is_plain(weight->encoding);
  }
  return count;
}

Shard compiled_with(const Plan& plan, size_t index, ProjectionForm projection, bool encoded) {
  PassOptions passes{.target = {.projection = projection}};
  if (encoded) passes.weights = weight_forms(plan, index);
  return run_default(golden_shard(plan, index, plan.build.tokens.front()), passes);
}

class EncodeGolden : public testing::TestWithParam<const char*> {};

TEST_P(EncodeGolden, ChangesValuesSlightly) {
  for (const ProjectionForm projection : {ProjectionForm::conv, ProjectionForm::matmul}) {
    BuildOptions build{.tokens = {3}, .context = 16};
    if (projection == ProjectionForm::matmul) build.layout = Layout::rows;
    build.weights = {{{std::nullopt, std::nullopt, AffineForm{}}}};
    const Plan plan = golden_plan(GetParam(), build);
    for (const size_t i : distinct_shards(plan)) {
      if (plan.shards[i].layer > 1 || HasFailure()) continue;
      SCOPED_TRACE(plan.shards[i].name);
      const Shard plain = compiled_with(plan, i, projection, false);
      const Shard encoded = compiled_with(plan, i, projection, true);
      EXPECT_GT(count_encoded(encoded), 0u);
      EXPECT_LT(weight_bytes(encoded), weight_bytes(plain));
      EXPECT_EQ(peak_activation_bytes(encoded), peak_activation_bytes(plain));
      const std::vector<Tensor> wanted = outputs_with(plain, plan);
      const std::vector<Tensor> got = outputs_with(encoded, plan);
      ASSERT_EQ(got.size(), wanted.size());
      // A recurrence multiplies rounding errors by the state, which is random here.
      const double most = plan.model.recurrent ? 0.06 : 0.03;
      for (size_t o = 0; o < got.size(); ++o)
        EXPECT_LT(relative_l2(got[o].data, wanted[o].data), most) << plain.outputs[o].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EncodeGolden, testing::ValuesIn(kGoldenCases), case_name);

TEST(EncodeWeights, CancelsTheTransposeOfAMatmul) {
  const PassOptions passes{.weights = {AffineForm{}, {}},
                           .target = {.projection = ProjectionForm::matmul}};
  const Shard shard = run_default(group_shard({.experts = 2}, Layout::rows, 0, 2), passes);
  for (const Op& op : shard.ops) {
    const auto* weight = std::get_if<Weight>(&op.data);
    if (!weight || is_plain(weight->encoding)) continue;
    for (const ViewStep& step : weight->view.steps)
      EXPECT_FALSE(std::holds_alternative<PermuteStep>(step)) << to_string(weight->view);
  }
  EXPECT_EQ(count_encoded(shard), 6u);
}

TEST(EncodeWeights, CountsTheBytesOfExperts) {
  const PassOptions passes{.weights = {AffineForm{}, {}}};
  const MoeSizes sizes{.experts = 4, .width = 12, .inner = 8};
  const Shard shard = run_default(
      moe_shard(sizes, Layout::channels, {.score = Score::softmax, .top_k = 2}), passes);
  // The codes of gate, up and down, plus one 4-byte scale per row.
  const int64_t expert = 3 * 12 * 8 + 4 * (8 + 8 + 12);
  EXPECT_EQ(expert_weight_bytes(shard, find_experts(shard, 4)), 4 * expert);
}

}  // namespace
}  // namespace moec
