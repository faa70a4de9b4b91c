#include "models/plan/cut_shards.h"

#include "ir/analysis/cost.h"
#include "models/plan/mlp_elements.h"
#include "models/plan/plan_model.h"
#include "models/shards/build_shard.h"
#include "models/shards/needed_tensors.h"
#include "models/shards/width_slices.h"
#include "tests/models/expect_error.h"
#include "tests/models/sample_model.h"

namespace moec {
namespace {

using Sizes = std::vector<int64_t>;

// A model with 3·d·f elements per expert.
ModelConfig model_of(int64_t d, int64_t f, int64_t experts, int64_t shared_ff = 0) {
  ModelConfig model = sample_model();
  model.hidden = d;
  model.moe.expert_ff = f;
  model.moe.experts = experts;
  model.moe.shared_ff = shared_ff;
  return model;
}

CutOptions budget(int64_t bytes) {
  CutOptions options;
  options.budgets.fill({bytes});
  return options;
}

// Stores all expert weights in one form.
BuildOptions with_experts_as(const WeightForm& form) {
  BuildOptions build;
  build.weights = {{{WeightGroup::experts, std::nullopt, form}}};
  return build;
}

Sizes groups(const ModelConfig& model, const CutOptions& options, BuildOptions build = {}) {
  const auto cuts = cut_shards(model, options, build);
  EXPECT_TRUE(cuts.has_value()) << render(cuts.error());
  Sizes sizes = expert_groups(model.moe.experts, build);
  EXPECT_EQ(cuts->front().parts, static_cast<int64_t>(sizes.size()));
  EXPECT_EQ(build.host_routing, cuts->front().kind == ShardKind::experts);
  return sizes;
}

// A budget of 200 MB, with one byte per weight and four bytes per row. The group counts equal those
// of measured exports by other tools.
TEST(CutShards, MatchesPublishedGroupsAt200Megabytes) {
  struct Case {
    const char* model;
    int64_t d, f, experts;
    Sizes sizes;
  };
  const Sizes eights(4, 8), thirty_twos(4, 32), ones(8, 1);
  for (const Case& c :
       {Case{"LFM2.5-8B-A1B", 2048, 1792, 32, {16, 16}},
        Case{"OLMoE-1B-7B", 2048, 1024, 64, {22, 21, 21}},
        Case{"Qwen1.5-MoE-A2.7B", 2048, 1408, 60, {20, 20, 20}},
        Case{"Qwen3-30B-A3B", 2048, 768, 128, thirty_twos},
        Case{"gpt-oss-20b", 2880, 2880, 32, eights}, Case{"Mixtral-8x7B", 4096, 14336, 8, ones}})
    EXPECT_EQ(
        groups(model_of(c.d, c.f, c.experts), budget(200'000'000), with_experts_as(AffineForm{})),
        c.sizes)
        << c.model;
}

// An expert has 4,718,592 weights of half a byte each, and 3,584 rows with a table of 32 bytes per
// 16 rows.
TEST(CutShards, CountsCodesAndTables) {
  BuildOptions build = with_experts_as(PaletteForm{4, 16});
  build.dtype = DType::f16;
  const int64_t expert = 4'718'592 / 2 + 3584 / 16 * 32, norm = 2 * 2048;
  EXPECT_EQ(groups(model_of(2048, 768, 128), budget(32 * expert + norm), build), Sizes(4, 32));
  EXPECT_EQ(groups(model_of(2048, 768, 128), budget(32 * expert + norm - 1), build),
            (Sizes{26, 26, 26, 25, 25}));
}

// All layers use the same group size, so the layer with the largest experts determines it.
TEST(CutShards, CutsForTheLargestLayer) {
  ModelConfig model = model_of(2048, 768, 128);
  BuildOptions build = with_experts_as(AffineForm{});
  EXPECT_EQ(groups(model, budget(200'000'000), build), Sizes(4, 32));
  build.weights.rules[0].layers = LayerRange{0, 0};
  EXPECT_GT(groups(model, budget(200'000'000), build).size(), 8u) << "other layers are float";
}

TEST(CutShards, CountsTwoBytesPerF16Weight) {
  BuildOptions build;
  build.dtype = DType::f16;
  // An expert has 9,437,184 bytes and the norm 4096: 21 experts fit, so 7 balanced groups.
  EXPECT_EQ(groups(model_of(2048, 768, 128), budget(200'000'000), build),
            (Sizes{19, 19, 18, 18, 18, 18, 18}));
}

TEST(CutShards, KeepsLayersWithinTheBudget) {
  const ModelConfig model = model_of(8, 3, 5);
  const int64_t whole = 4 * (5 * 72 + 8 + 5 * 8);  // experts, norm, router
  EXPECT_EQ(groups(model, budget(whole)), (Sizes{5}));
  EXPECT_EQ(groups(model, budget(whole - 1)), (Sizes{5})) << "the router alone leaves";
  EXPECT_EQ(groups(model, budget(whole - 161)), (Sizes{3, 2}));
  EXPECT_EQ(groups(model, {}), (Sizes{5}));
}

TEST(CutShards, CountsTheSharedExpertInGroups) {
  // 10 experts of 72 elements and a shared expert of 144: five experts fit into the budget, or
  // three experts and the shared one.
  const ModelConfig model = model_of(8, 3, 10, 6);
  EXPECT_EQ(groups(model, budget(4 * (8 + 5 * 72))), (Sizes{3, 3, 2, 2}));
  EXPECT_EQ(groups(model_of(8, 3, 10), budget(4 * (8 + 5 * 72))), (Sizes{5, 5}));
}

TEST(CutShards, SplitsOffALargeSharedExpert) {
  BuildOptions build;
  const ModelConfig model = model_of(8, 3, 10, 60);
  const auto cuts = cut_shards(model, budget(4 * (8 + 5 * 72)), build);
  ASSERT_TRUE(cuts.has_value());
  EXPECT_EQ(expert_groups(10, build), (Sizes{5, 5}));
  EXPECT_EQ(build.slices.expert, 1);
  EXPECT_EQ(build.slices.shared, 4) << "1440 elements, 15 columns of 24 in each";
  EXPECT_EQ((*cuts)[1].kind, ShardKind::shared);
  EXPECT_EQ((*cuts)[1].parts, 4);
}

TEST(CutShards, SlicesExpertsAboveTheBudget) {
  const ModelConfig model = model_of(4096, 14336, 8);
  BuildOptions build;
  build.dtype = DType::f16;
  const auto cuts = cut_shards(model, budget(200'000'000), build);
  ASSERT_TRUE(cuts.has_value());
  EXPECT_EQ(expert_groups(8, build), Sizes(8, 1));
  EXPECT_EQ(build.slices.expert, 2) << "352 MB";
  EXPECT_EQ(cuts->front().slices, 2);
  EXPECT_EQ(build.slices.shared, 0);
}

TEST(CutShards, SlicesDenseMlpsMinimally) {
  ModelConfig model = sample_model();  // hidden 8, ff 12: 24 elements per column, a norm of 8
  BuildOptions build;
  CutOptions options;
  int64_t& bytes = options.budgets[static_cast<size_t>(ShardKind::mlp)].bytes;
  for (const auto& [columns, slices] :
       std::map<int64_t, int64_t>{{12, 1}, {11, 2}, {6, 2}, {5, 3}}) {
    bytes = 4 * (8 + 24 * columns);
    ASSERT_TRUE(cut_shards(model, options, build).has_value());
    EXPECT_EQ(build.slices.mlp, slices) << columns;
  }
}

TEST(CutShards, NamesTheSmallestWorkingBudget) {
  BuildOptions build;
  const ModelConfig model = model_of(4096, 14336, 8);
  const auto failed = cut_shards(model, budget(10'000'000), build);
  expect_error(failed, "plan.budget",
               "the budget of 10.0 MB is below the smallest slice of an expert of 11.0 MB");
  EXPECT_EQ(failed.error()[0].next_step, "raise the budget to at least 12 MB");
  EXPECT_TRUE(cut_shards(model, budget(12'000'000), build).has_value());
  CutOptions allowed = budget(10'000'000);
  allowed.allow_over_budget = true;
  ASSERT_TRUE(cut_shards(model, allowed, build).has_value());
  EXPECT_EQ(build.slices.expert, 64);
  expect_error(cut_shards(model_of(8, 1, 2), budget(40), build), "plan.budget", "expert");
}

TEST(CutShards, RejectsGroupsLargerThanTheModel) {
  CutOptions options;
  options.experts_per_shard = 11;
  BuildOptions build;
  const auto failed = cut_shards(model_of(8, 3, 10), options, build);
  expect_error(failed, "plan.experts_per_shard", "groups of 11 experts were requested");
  EXPECT_EQ(failed.error()[0].next_step, "choose 1 to 10");
  options.experts_per_shard = 10;
  EXPECT_EQ(groups(model_of(8, 3, 10), options), Sizes{10});
}

TEST(CutShards, CutsRequestedGroupsAboveTheBudget) {
  CutOptions options = budget(4 * (8 + 3 * 72));
  options.experts_per_shard = 5;
  EXPECT_EQ(groups(model_of(8, 3, 10), options), (Sizes{3, 3, 2, 2}));
}

TEST(CutShards, KeepsRequestedLayersWhole) {
  CutOptions options = budget(4 * 100);
  options.keep_moe_layers = true;
  options.allow_over_budget = true;
  EXPECT_EQ(groups(model_of(8, 3, 10), options), Sizes{10});
}

TEST(CutShards, SlicesTheHeadMinimally) {
  ModelConfig model = sample_model();  // 11 tokens of 8 elements, a norm of 8
  BuildOptions build;
  CutOptions options;
  options.budgets[static_cast<size_t>(ShardKind::lm_head)] = {4 * 8 * (1 + 4)};
  EXPECT_EQ(cut_shards(model, options, build)->back().parts, 3);
  EXPECT_EQ(build.head_slices, 3);
  build.head_slices = 5;  // the target's channel limit requires more
  EXPECT_EQ(cut_shards(model, options, build)->back().parts, 5);
  options.head_slices = 2;
  EXPECT_EQ(cut_shards(model, options, build)->back().parts, 2);
  options = {};
  options.budgets[static_cast<size_t>(ShardKind::lm_head)] = {4 * 8};
  expect_error(cut_shards(model, options, build), "plan.budget", "row of the head");
}

TEST(CutShards, KeepsLayersInSharedShardsWhole) {
  BuildOptions build;
  CutOptions options = budget(4 * (8 + 4 * 72));  // fits half of the experts
  options.layers_per_shard = 2;
  const auto cuts = cut_shards(model_of(8, 3, 10), options, build);
  ASSERT_TRUE(cuts.has_value());
  ASSERT_EQ(cuts->size(), 2u);
  EXPECT_EQ(cuts->front().kind, ShardKind::layers);
  EXPECT_EQ(build.layers_per_shard, 2);
  EXPECT_FALSE(build.host_routing);
  options.layers_per_shard = 0;
  options.fit_layers = true;
  EXPECT_EQ(cut_shards(model_of(8, 3, 10), options, build)->size(), 3u);
  EXPECT_EQ(build.layers_per_shard, 0);
  EXPECT_TRUE(build.host_routing) << "a layer that no shard holds is cut";
}

TEST(CutShards, BalancesRequestedGroups) {
  CutOptions options;
  options.experts_per_shard = 3;
  EXPECT_EQ(groups(model_of(8, 3, 7), options), (Sizes{3, 2, 2}));
}

// The number of elements that cut_shards() predicts for a shard; the built shard must have exactly
// this number.
int64_t assumed_elements(const ModelConfig& model, const ShardDecl& decl) {
  const MoeElements sizes = moe_elements(model, {});
  const auto of = [&](const MlpElements& mlp) {
    return mlp.of_width(slice_of(decl, mlp.width).size);
  };
  switch (decl.kind) {
    case ShardKind::router:
      return sizes.norm + sizes.router;
    case ShardKind::shared:
      return sizes.norm + of(sizes.shared);
    case ShardKind::mlp:
      return dense_elements(model).norm + of(dense_elements(model).mlp);
    default:
      return sizes.norm + sizes.latent + decl.experts * of(sizes.expert);
  }
}

// A model with biases, some of which are repeated in each slice.
ModelConfig model_with_biases() {
  ModelConfig model = model_of(8, 3, 10, 6);
  model.moe.shared_gated = true;
  model.moe.expert_biases = true;
  model.mlp.bias = true;
  for (const char* role : {"gate_bias", "up_bias", "down_bias", "shared_gate_proj_bias",
                           "shared_up_bias", "shared_down_bias", "experts_gate_up",
                           "experts_gate_up_bias", "experts_down", "experts_down_bias"})
    model.names.by_role[role] = std::string("{i}.") + role;
  return model;
}

// A model with a latent, whose maps are in each shard of experts.
ModelConfig model_with_latent_and_shared() {
  ModelConfig model = model_of(8, 7, 10, 6);
  model.moe.latent = 5;
  for (const char* role : {"latent_in", "latent_out"})
    model.names.by_role[role] = std::string("{i}.") + role;
  return model;
}

void expect_assumed_bytes(const ModelConfig& model, const Sizes& budgets) {
  for (const int64_t elements : budgets) {
    BuildOptions build = sample_options();
    ASSERT_TRUE(cut_shards(model, budget(4 * elements), build).has_value());
    const auto plan = plan_model(model, declared_weights(model, DType::bf16), build);
    ASSERT_TRUE(plan.has_value()) << render(plan.error());
    for (size_t i = 0; i < plan->shards.size(); ++i) {
      const ShardDecl& decl = plan->shards[i];
      if (decl.kind == ShardKind::attention || decl.kind == ShardKind::lm_head) continue;
      int64_t assumed = assumed_elements(model, decl);
      if (decl.kind == ShardKind::experts && decl.first_expert == 0 && build.slices.shared == 0)
        assumed += moe_elements(model, {}).shared.whole();
      const int64_t bytes = weight_bytes(*build_shard(*plan, i, 1));
      EXPECT_EQ(bytes, 4 * assumed) << decl.name;
      if (decl.kind != ShardKind::router) {
        EXPECT_LE(bytes, 4 * elements) << decl.name;
      }
    }
  }
}

// Covers groups next to the shared expert, groups without it, and slices.
TEST(CutShards, PredictsTheBytesOfBuiltShards) {
  expect_assumed_bytes(model_with_biases(), {500, 200, 70});
  expect_assumed_bytes(model_with_latent_and_shared(), {500, 200, 180});
}

TEST(CutShards, CountsTheLatentBiasPerShard) {
  ModelConfig model = model_with_latent_and_shared();
  model.mlp.bias = true;
  const MoeElements plain = moe_elements(model_with_latent_and_shared(), {}),
                    biased = moe_elements(model, {});
  EXPECT_EQ(plain.latent, 2 * 8 * 5);
  EXPECT_EQ(biased.latent, plain.latent + 5);
  EXPECT_EQ(biased.norm, plain.norm + 8);
  EXPECT_EQ(plain.expert.sliced, 3 * 5 * 7);
}

}  // namespace
}  // namespace moec
