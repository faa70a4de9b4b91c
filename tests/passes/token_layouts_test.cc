// Runs the golden checkpoints through the whole pipeline in layout bc1s, and checks that values and
// ops equal those in layout channels.
#include "tests/models/distinct_shards.h"
#include "tests/passes/golden_plans.h"

namespace moec {
namespace {

std::vector<Tensor> run(const Shard& shard, const WeightReader& weights,
                        const std::vector<Tensor>& inputs) {
  auto executor = Executor::create(shard, weights);
  EXPECT_TRUE(executor.has_value()) << render(executor.error());
  if (!executor) return {};
  auto outputs = executor->run(inputs);
  EXPECT_TRUE(outputs.has_value()) << render(outputs.error());
  return outputs.value_or(std::vector<Tensor>{});
}

// Both layouts store the elements in the same order.
void expect_equal_elements(const Shard& channels, const Shard& bc1s, const WeightReader& weights) {
  std::vector<Tensor> inputs = seeded_inputs(channels, 4);
  const std::vector<Tensor> wanted = run(channels, weights, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].type = bc1s.type(bc1s.inputs[i]);
  const std::vector<Tensor> got = run(bc1s, weights, inputs);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NE(wanted[i].type.layout, Layout::bc1s);
    EXPECT_EQ(got[i].type, bc1s.type(bc1s.outputs[i].value));
    EXPECT_LE(relative_l2(got[i].data, wanted[i].data), 1e-6) << bc1s.outputs[i].name;
  }
}

class TokenLayouts : public testing::TestWithParam<const char*> {};

TEST_P(TokenLayouts, MatchesChannelsInBc1s) {
  BuildOptions build{.tokens = {1, 3}, .context = 8, .cache = CacheForm::blend};
  const Plan channels = golden_plan(GetParam(), build);
  build.layout = Layout::bc1s;
  const Plan bc1s = golden_plan(GetParam(), build);
  auto weights = WeightReader::open(channels.weights);
  ASSERT_TRUE(weights.has_value());
  for (ExpertForm experts : {ExpertForm::unrolled, ExpertForm::bank}) {
    const PassOptions options{
        .experts = experts, .attention = AttentionForm::per_head, .target = {.has_state = true}};
    for (const size_t i : distinct_shards(channels))
      for (int64_t tokens : build.tokens) {
        SCOPED_TRACE(channels.shards[i].name);
        const Shard a = run_default(golden_shard(channels, i, tokens), options);
        const Shard b = run_default(golden_shard(bc1s, i, tokens), options);
        EXPECT_EQ(a.ops.size(), b.ops.size());
        expect_equal_elements(a, b, *weights);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, TokenLayouts, testing::ValuesIn(kGoldenCases), case_name);

}  // namespace
}  // namespace moec
