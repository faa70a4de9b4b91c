// Whose each weight is, in every form that the passes give to experts.
#include "ir/find_experts.h"

#include "passes/pass_options.h"
#include "tests/passes/golden_plans.h"
#include "tests/passes/moe_shards.h"

namespace moec {
namespace {

struct Owned {
  std::string name;
  WeightShare share;
};

std::vector<Owned> owned_weights(const Shard& shard, int64_t experts, WeightRole role) {
  const IdMap<OpId, OpRole> roles = find_experts(shard, experts);
  std::vector<Owned> owned;
  for (OpId id : op_ids(shard))
    if (std::holds_alternative<Weight>(shard.ops[id].data) && roles[id].share.role == role)
      owned.push_back({shard.values[shard.ops[id].results[0]].name, roles[id].share});
  return owned;
}

// Each expert of [first, first + count) has its `parts` weights, alone or as blocks of a bank's,
// and the names that the passes gave agree.
void expect_whole(const Shard& shard, int64_t experts, int64_t first, int64_t count, int parts) {
  std::vector<int> weights(static_cast<size_t>(experts), 0);
  for (const Owned& owned : owned_weights(shard, experts, WeightRole::expert)) {
    for (int64_t e = owned.share.first; e < owned.share.first + owned.share.count; ++e)
      ++weights.at(static_cast<size_t>(e));
    ASSERT_TRUE(owned.name.starts_with("experts.")) << owned.name;
    const std::string rest = owned.name.substr(std::string_view("experts.").size());
    const bool numbered = rest.starts_with(std::to_string(owned.share.first) + ".");
    const bool of_bank = rest.find_first_of("0123456789") != 0;  // which may be of one expert
    EXPECT_TRUE(of_bank || numbered) << owned.name;
  }
  for (int64_t e = 0; e < experts; ++e)
    EXPECT_EQ(weights[static_cast<size_t>(e)], first <= e && e < first + count ? parts : 0) << e;
  for (const Owned& owned : owned_weights(shard, experts, WeightRole::plain))
    EXPECT_FALSE(owned.name.starts_with("experts.")) << owned.name;
}

struct ExpertsCase {
  RoutingForm routing;
  ExpertForm experts;
  ProjectionForm projection;
  int64_t bank_channel_limit;
};

std::vector<ExpertsCase> all_cases() {
  std::vector<ExpertsCase> cases;
  for (RoutingForm routing : {RoutingForm::rank, RoutingForm::iterate, RoutingForm::topk,
                              RoutingForm::full_softmax, RoutingForm::host})
    for (ProjectionForm projection : {ProjectionForm::conv, ProjectionForm::matmul}) {
      cases.push_back({routing, ExpertForm::unrolled, projection, 16384});
      cases.push_back({routing, ExpertForm::bank, projection, 16384});
      cases.push_back({routing, ExpertForm::bank, projection, 64});  // several banks
    }
  return cases;
}

class FindExperts : public testing::TestWithParam<const char*> {};

void expect_found(const Plan& plan, size_t index, const PassOptions& passes, int64_t tokens) {
  const ShardDecl& decl = plan.shards[index];
  SCOPED_TRACE(decl.name + " of " + std::to_string(tokens) + " tokens, " + to_string(passes));
  const Shard shard = run_default(golden_shard(plan, index, tokens), passes);
  const MoeConfig& moe = plan.model.moe;
  expect_whole(shard, moe.experts, decl.first_expert, decl.experts, moe.expert_biases ? 6 : 3);
  const bool routes = decl.kind == ShardKind::moe || decl.kind == ShardKind::router;
  const auto routing = owned_weights(shard, moe.experts, WeightRole::routing);
  // What only biases the choice is not there where nothing is chosen.
  const bool biased = moe.choice_bias && is_exact(passes.routing);
  ASSERT_EQ(routing.size(), routes ? 1u + (biased ? 1u : 0u) + (moe.router_bias ? 1u : 0u) : 0u);
  for (const Owned& owned : routing) {
    EXPECT_TRUE(owned.name.starts_with("router")) << owned.name;
    EXPECT_EQ(owned.share.count, moe.experts);
  }
}

int64_t first_moe_layer(const Plan& plan) {
  int64_t layer = 0;
  while (!plan.model.layers[static_cast<size_t>(layer)].moe) ++layer;
  return layer;
}

TEST_P(FindExperts, EachHasItsWeights) {
  for (const ExpertsCase& c : all_cases())
    for (const auto& [tokens, dtype] : {std::pair(int64_t{1}, DType::f32), {3, DType::f16}}) {
      BuildOptions build{.dtype = dtype, .tokens = {tokens}, .context = 16};
      const bool conv = c.projection == ProjectionForm::conv;
      build.layout = conv ? Layout::channels : Layout::rows;
      build.host_routing = c.routing == RoutingForm::host;
      build.experts_per_shard = build.host_routing ? 2 : 0;
      const Plan plan = golden_plan(GetParam(), build);
      const PassOptions passes{.routing = c.routing,
                               .experts = c.experts,
                               .bank_channel_limit = c.bank_channel_limit,
                               .target = {.projection = c.projection}};
      for (size_t i = 0; i < plan.shards.size() && !HasFailure(); ++i)
        if (plan.shards[i].layer == first_moe_layer(plan) &&
            plan.shards[i].kind != ShardKind::attention)
          expect_found(plan, i, passes, tokens);
    }
}

INSTANTIATE_TEST_SUITE_P(Golden, FindExperts, testing::ValuesIn(kGoldenCases), case_name);

TEST(FindExpertsOf, AWideExpertInParts) {
  const MoeSizes sizes{.experts = 4, .width = 8, .inner = 30, .tokens = 2};
  const Router top_two{.score = Score::softmax, .top_k = 2, .renorm = Renorm::sum};
  const PassOptions passes{.target = {.limits = {.channels = 16}}};
  const Shard shard = run_default(moe_shard(sizes, Layout::channels, top_two), passes);
  std::vector<int> weights(4, 0);
  for (const Owned& owned : owned_weights(shard, 4, WeightRole::expert)) {
    EXPECT_EQ(owned.share.count, 1);
    ++weights.at(static_cast<size_t>(owned.share.first));
  }
  EXPECT_EQ(weights, (std::vector<int>{6, 6, 6, 6}));
}

TEST(FindExpertsOf, AnExpertThatIsNotAddedIsNotThere) {
  const MoeSizes sizes{.experts = 3, .width = 4, .inner = 5, .tokens = 2};
  Shard shard = run_default(group_shard(sizes, Layout::channels, 0, 3));
  // The last sum of terms takes the first of them twice instead of the third.
  for (OpId id : op_ids(shard))
    if (Op& op = shard.ops[id]; mnemonic(op.data) == "add")
      if (shard.producer_as<Conv>(op.operands[1]) && shard.producer_as<Binary>(op.operands[0]))
        op.operands[1] = op.operands[0];
  for (const Owned& owned : owned_weights(shard, 3, WeightRole::expert))
    EXPECT_NE(owned.share.first, 2) << owned.name;
}

TEST(FindExpertsOf, ADenseShardHasNone) {
  const Shard shard = run_default(moe_shard({}, Layout::channels, {.top_k = 1}));
  EXPECT_TRUE(owned_weights(shard, 0, WeightRole::expert).empty());
  EXPECT_TRUE(owned_weights(shard, 0, WeightRole::routing).empty());
}

}  // namespace
}  // namespace moec
