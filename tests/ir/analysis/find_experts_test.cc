// Tests that find_experts() assigns each weight to its expert, for every form that the passes
// produce.
#include "ir/analysis/find_experts.h"

#include <algorithm>

#include "ir/graph/builder.h"
#include "models/shards/needed_tensors.h"
#include "passes/pass_options.h"
#include "tests/models/sample_model.h"
#include "tests/passes/golden_plans.h"
#include "tests/passes/moe_shards.h"

namespace moec {
namespace {

struct Owned {
  std::string name;
  WeightShare share;
};

using Roles = IdMap<OpId, OpRole>;

std::vector<Owned> owned_weights(const Shard& shard, const Roles& roles, WeightRole role) {
  std::vector<Owned> owned;
  for (OpId id : op_ids(shard))
    if (std::holds_alternative<Weight>(shard.ops[id].data) && roles[id].share.role == role)
      owned.push_back({shard.values[shard.ops[id].results[0]].name, roles[id].share});
  return owned;
}

// Number of matrices per expert, `unfused` outside of a moe, which has one for gate and up.
int matrices_of(const Shard& shard, int unfused) { return count_ops<Moe>(shard) > 0 ? 2 : unfused; }

// Checks that each expert of [first, first + count) owns `parts` weights, alone or as blocks of a
// bank, and that their names agree.
void expect_whole(const Shard& shard, const Roles& roles, int64_t experts, int64_t first,
                  int64_t count, int parts) {
  std::vector<int> weights(static_cast<size_t>(experts), 0);
  for (const Owned& owned : owned_weights(shard, roles, WeightRole::expert)) {
    for (int64_t e = owned.share.first; e < owned.share.first + owned.share.count; ++e)
      ++weights.at(static_cast<size_t>(e));
    ASSERT_TRUE(owned.name.starts_with("experts.")) << owned.name;
    const std::string rest = owned.name.substr(std::string_view("experts.").size());
    const bool numbered = rest.starts_with(std::to_string(owned.share.first) + ".");
    const bool of_bank = rest.find_first_of("0123456789") != 0;  // a bank may have one expert
    EXPECT_TRUE(of_bank || numbered) << owned.name;
  }
  for (int64_t e = 0; e < experts; ++e)
    EXPECT_EQ(weights[static_cast<size_t>(e)], first <= e && e < first + count ? parts : 0) << e;
  for (const Owned& owned : owned_weights(shard, roles, WeightRole::plain))
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
                              RoutingForm::full_softmax, RoutingForm::host, RoutingForm::op})
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
  const int matrices = matrices_of(shard, static_cast<int>(plan.model.mlp.gating.matrices()));
  const Roles roles = find_experts(shard, moe.experts);
  expect_whole(shard, roles, moe.experts, decl.first_expert, decl.experts,
               (moe.expert_biases ? 2 : 1) * matrices);
  const bool routes = (decl.kind == ShardKind::moe || decl.kind == ShardKind::router) &&
                      moe.null_slots == 0;  // null slots add router rows that belong to no expert
  const auto routing = owned_weights(shard, roles, WeightRole::routing);
  // In types narrower than f32, the choice bias has two halves. full_softmax does not choose
  // experts and has no choice bias.
  const bool biased = moe.choice_bias && is_exact(passes.routing);
  const size_t halves = !biased ? 0 : plan.build.dtype == DType::f32 ? 1 : 2;
  // Exact routing in types narrower than f32 has a second projection, which computes the rounding
  // error of the logits, unless a cap bounds them.
  const bool refined = is_exact(passes.routing) && plan.build.dtype != DType::f32;
  const size_t projections = refined && moe.router_map.softcap == 0 ? 2 : 1;
  const size_t vectors = (moe.router_map.bias ? 1 : 0) + (moe.router_map.normed ? 1 : 0);
  ASSERT_EQ(routing.size(), routes ? projections + halves + vectors : 0u);
  for (const Owned& owned : routing) {
    EXPECT_TRUE(owned.name.starts_with("router")) << owned.name;
    EXPECT_EQ(owned.share.count, moe.experts);
  }
}

// Index of the first MoE layer; the number of layers if all are dense.
int64_t first_moe_layer(const Plan& plan) {
  const auto& layers = plan.model.layers;
  return std::find_if(layers.begin(), layers.end(), [](const auto& layer) { return layer.moe; }) -
         layers.begin();
}

// Types and widths alternate, so that each routing with each form of experts meets both.
TEST_P(FindExperts, FindsTheWeightsOfEachExpert) {
  bool wide = false;
  for (const ExpertsCase& c : all_cases()) {
    wide = !wide;
    const int64_t tokens = wide ? 3 : 1;
    BuildOptions build{.dtype = wide ? DType::f16 : DType::f32, .tokens = {tokens}, .context = 16};
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

// A matmul's weight is the transpose of the stored weight. In a bank, the experts then lie along
// the other axis.
TEST_P(FindExperts, FindsExpertWeightsInEncodedShards) {
  for (const ExpertForm experts : {ExpertForm::unrolled, ExpertForm::bank})
    for (const ProjectionForm projection : {ProjectionForm::conv, ProjectionForm::matmul}) {
      BuildOptions build{.tokens = {3}, .context = 16};
      if (projection == ProjectionForm::matmul) build.layout = Layout::rows;
      const Plan plan = golden_plan(GetParam(), build);
      const PassOptions passes{
          .experts = experts, .weights = {AffineForm{}, {}}, .target = {.projection = projection}};
      for (size_t i = 0; i < plan.shards.size() && !HasFailure(); ++i)
        if (plan.shards[i].kind == ShardKind::moe && plan.shards[i].layer == first_moe_layer(plan))
          expect_found(plan, i, passes, 3);
    }
}

// Chains the MoE layers of a plan, followed by a linear map that belongs to no expert.
Shard moe_layers_of(const Plan& plan, int64_t tokens) {
  Builder b("layers", Form::model);
  const Type type = token_type(plan.build.dtype, plan.build.layout, plan.model.hidden, tokens);
  ValueId hidden = b.input("x", type);
  for (size_t i = 0; i < plan.shards.size(); ++i)
    if (plan.shards[i].kind == ShardKind::moe)
      hidden = splice(b, golden_shard(plan, i, tokens), {hidden},
                      "L" + std::to_string(plan.shards[i].layer))[0];
  const Dims square{plan.model.hidden, plan.model.hidden};
  ValueId dense = seeded_weight(b, 1, plan.build.dtype, square, 1, "dense.weight");
  b.output("moe_out", b.linear(hidden, dense, "dense"));
  return b.finish();
}

// Checks that each expert and router weight is assigned to the layer in its name, and that none is
// missing.
void expect_found_in_layers(const Shard& shard, int64_t experts, size_t layers) {
  const IdMap<OpId, OpRole> roles = find_experts(shard, experts, layers);
  std::map<std::pair<size_t, int64_t>, int> weights;  // by layer and expert; -1 is the router
  for (OpId id : op_ids(shard)) {
    if (!std::holds_alternative<Weight>(shard.ops[id].data)) continue;
    const std::string& name = shard.values[shard.ops[id].results[0]].name;
    const WeightShare& share = roles[id].share;
    const std::string layer = "L" + std::to_string(share.moe_layer) + ".";
    if (share.role == WeightRole::plain) {
      EXPECT_EQ(name.find(".experts."), std::string::npos) << name;
      continue;
    }
    const bool router = share.role == WeightRole::routing;
    EXPECT_TRUE(name.starts_with(layer + (router ? "router." : "experts."))) << name;
    if (router)
      ++weights[{share.moe_layer, -1}];
    else
      for (int64_t i = 0; i < share.count; ++i) ++weights[{share.moe_layer, share.first + i}];
  }
  for (size_t layer = 0; layer < layers; ++layer)
    for (int64_t e = -1; e < experts; ++e)
      EXPECT_EQ((weights[{layer, e}]), e < 0 ? 1 : matrices_of(shard, 3))
          << "layer " << layer << " expert " << e;
}

TEST(FindExpertsOf, FindsTheExpertsOfSeveralLayers) {
  for (const ExpertsCase& c : all_cases()) {
    if (c.routing == RoutingForm::host) continue;
    const bool conv = c.projection == ProjectionForm::conv;
    const Plan plan = golden_plan(
        "mixtral_a",
        {.layout = conv ? Layout::channels : Layout::rows, .tokens = {3}, .context = 16});
    const PassOptions passes{.routing = c.routing,
                             .experts = c.experts,
                             .bank_channel_limit = c.bank_channel_limit,
                             .target = {.projection = c.projection}};
    SCOPED_TRACE(to_string(passes));
    const Shard shard = run_default(moe_layers_of(plan, 3), passes);
    expect_found_in_layers(shard, plan.model.moe.experts, plan.model.layers.size());
  }
}

TEST(FindExpertsOf, AssignsSharedWeightsToNoExpert) {
  const Plan plan = golden_plan("mixtral_a", {.tokens = {1}, .context = 16});
  Shard shard = run_default(moe_layers_of(plan, 1));
  const auto weight = [&](const std::string& name) {
    for (OpId id : op_ids(shard))
      if (std::holds_alternative<Weight>(shard.ops[id].data) &&
          shard.values[shard.ops[id].results[0]].name == name)
        return shard.ops[id].results[0];
    ADD_FAILURE() << "no weight " << name;
    return ValueId{0};
  };
  const ValueId first = weight("L0.experts.1.up.weight"), second = weight("L1.experts.1.up.weight");
  for (OpId id : op_ids(shard))
    std::replace(shard.ops[id].operands.begin(), shard.ops[id].operands.end(), second, first);
  const auto roles = find_experts(shard, plan.model.moe.experts, 2);
  for (ValueId either : {first, second})
    EXPECT_EQ(roles[shard.values[either].producer].share.role, WeightRole::plain);
}

TEST(FindExpertsOf, FindsExpertsCutIntoParts) {
  const MoeSizes sizes{.experts = 4, .width = 8, .inner = 30, .tokens = 2};
  const Router top_two{.score = Score::softmax, .top_k = 2, .renorm = Renorm::sum};
  const PassOptions passes{.target = {.limits = {.channels = 16}}};
  const Shard shard = run_default(moe_shard(sizes, Layout::channels, top_two), passes);
  std::vector<int> weights(4, 0);
  for (const Owned& owned : owned_weights(shard, find_experts(shard, 4), WeightRole::expert)) {
    EXPECT_EQ(owned.share.count, 1);
    ++weights.at(static_cast<size_t>(owned.share.first));
  }
  EXPECT_EQ(weights, (std::vector<int>{6, 6, 6, 6}));
}

// Sizes with which the matrices around the latent could be mistaken for per-expert blocks.
ModelConfig model_with_latent() {
  ModelConfig model = sample_model();
  model.moe.experts = 4;
  model.moe.latent = 4;
  model.moe.shared_ff = 4;
  for (const char* role : {"latent_in", "latent_out"})
    model.names.by_role[role] = std::string("{i}.") + role;
  return model;
}

// The map after the experts reads only routed values; in a one-expert shard, all of them belong to
// one expert.
TEST(FindExpertsOf, AssignsLatentMapsToNoExpert) {
  const ModelConfig model = model_with_latent();
  for (const int64_t experts : {0, 1, 2})
    for (const ExpertsCase& c : all_cases()) {
      if ((experts > 0) != (c.routing == RoutingForm::host)) continue;
      const bool conv = c.projection == ProjectionForm::conv;
      const BuildOptions build{.layout = conv ? Layout::channels : Layout::rows,
                               .tokens = {3},
                               .context = 16,
                               .host_routing = experts > 0,
                               .experts_per_shard = experts};
      const auto plan = plan_model(model, declared_weights(model, DType::f32), build);
      ASSERT_TRUE(plan) << render(plan.error());
      const PassOptions passes{.routing = c.routing,
                               .experts = c.experts,
                               .bank_channel_limit = c.bank_channel_limit,
                               .target = {.projection = c.projection}};
      for (size_t i = 0; i < plan->shards.size(); ++i)
        if (const ShardDecl& decl = plan->shards[i]; decl.experts > 0) {
          SCOPED_TRACE(decl.name + ", " + to_string(passes));
          const Shard shard = run_default(golden_shard(*plan, i, 3), passes);
          expect_whole(shard, find_experts(shard, 4), 4, decl.first_expert, decl.experts,
                       matrices_of(shard, 3));
        }
    }
}

TEST(FindExpertsOf, SkipsExpertsThatAreNotAdded) {
  const MoeSizes sizes{.experts = 3, .width = 4, .inner = 5, .tokens = 2};
  Shard shard = run_default(group_shard(sizes, Layout::channels, 0, 3));
  // Makes the last sum add its first term twice instead of the third.
  for (OpId id : op_ids(shard))
    if (Op& op = shard.ops[id]; mnemonic(op.data) == "add")
      if (shard.producer_as<Conv>(op.operands[1]) && shard.producer_as<Binary>(op.operands[0]))
        op.operands[1] = op.operands[0];
  for (const Owned& owned : owned_weights(shard, find_experts(shard, 3), WeightRole::expert))
    EXPECT_NE(owned.share.first, 2) << owned.name;
}

TEST(FindExpertsOf, FindsNoExpertsInDenseShards) {
  const Shard shard = run_default(moe_shard({}, Layout::channels, {.top_k = 1}));
  EXPECT_TRUE(owned_weights(shard, find_experts(shard, 0), WeightRole::expert).empty());
  EXPECT_TRUE(owned_weights(shard, find_experts(shard, 0), WeightRole::routing).empty());
}

}  // namespace
}  // namespace moec
