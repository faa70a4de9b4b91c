#include "models/plan/join_layers.h"

#include "ir/analysis/cost.h"
#include "models/plan/plan_model.h"
#include "models/shards/build_shard.h"
#include "models/shards/needed_tensors.h"
#include "tests/models/expect_error.h"
#include "tests/models/sample_model.h"

namespace moec {
namespace {

using Sizes = std::vector<int64_t>;

// One dense layer and six larger MoE layers.
ModelConfig seven_layers() {
  ModelConfig model = sample_model();
  model.layers.resize(7, model.layers[1]);
  return model;
}

struct Joined {
  Sizes groups;
  ShardCut cut;
};

Joined fitted(int64_t budget, const BuildOptions& options_of_build = {}) {
  CutOptions options;
  options.fit_layers = true;
  options.budgets[static_cast<size_t>(ShardKind::layers)].bytes = budget;
  BuildOptions build = options_of_build;
  const ModelConfig model = seven_layers();
  const ShardCut cut = join_layers(model, options, build);
  if (build.layers_per_shard == 0) return {{}, cut};
  return {layer_groups(7, build), cut};
}

TEST(JoinLayers, BalancesGroups) {
  CutOptions options;
  options.layers_per_shard = 3;
  BuildOptions build;
  const ShardCut cut = join_layers(seven_layers(), options, build);
  EXPECT_EQ(layer_groups(7, build), (Sizes{3, 2, 2}));
  EXPECT_EQ(cut, (ShardCut{ShardKind::layers, 3, "3 layers per shard were requested"}));
  options.layers_per_shard = 100;
  join_layers(seven_layers(), options, build);
  EXPECT_EQ(layer_groups(7, build), Sizes{7});
}

TEST(JoinLayers, FillsTheBudgetWithLayers) {
  const int64_t layer = 4 * layer_elements(seven_layers(), {})[1];
  EXPECT_EQ(fitted(0).groups, Sizes{7});
  EXPECT_EQ(fitted(7 * layer).groups, Sizes{7});
  EXPECT_EQ(fitted(4 * layer).groups, (Sizes{4, 3}));
  EXPECT_EQ(fitted(2 * layer).groups, (Sizes{2, 2, 2, 1}));
  // Routers store more elements in f16.
  const BuildOptions f16{.dtype = DType::f16};
  const int64_t half = 2 * layer_elements(seven_layers(), f16)[1];
  EXPECT_GT(half, layer / 2);
  EXPECT_EQ(fitted(4 * half, f16).groups, (Sizes{4, 3}));
  EXPECT_EQ(fitted(2 * layer, f16).groups, (Sizes{3, 2, 2}));
  EXPECT_EQ(fitted(layer).groups, Sizes(7, 1));
  EXPECT_EQ(fitted(layer).cut.parts, 7);
}

TEST(JoinLayers, CountsEncodedWeightsWhenFitting) {
  const int64_t layer = 4 * layer_elements(seven_layers(), {})[1];
  BuildOptions build;
  build.weights = {{{std::nullopt, std::nullopt, AffineForm{8, ScaleScope::tensor}}}};
  EXPECT_LT(fitted(2 * layer, build).groups.size(), fitted(2 * layer).groups.size());
}

TEST(JoinLayers, CutsLayersAboveTheBudget) {
  const Joined none = fitted(4 * layer_elements(seven_layers(), {})[1] - 1);
  EXPECT_TRUE(none.groups.empty());
  EXPECT_EQ(none.cut.parts, 0);
  EXPECT_THAT(none.cut.reason, testing::HasSubstr("is above the budget"));
}

// Fitting must predict the sizes of the shards that the builders produce.
TEST(JoinLayers, PredictsTheBytesOfBuiltShards) {
  const ModelConfig model = seven_layers();
  BuildOptions build = sample_options();
  build.layers_per_shard = 3;
  const auto plan = plan_model(model, declared_weights(model, DType::bf16), build);
  ASSERT_TRUE(plan.has_value()) << render(plan.error());
  const Sizes elements = layer_elements(model, build);
  int64_t seen = 0;
  for (size_t i = 0; i < plan->shards.size(); ++i) {
    const ShardDecl& decl = plan->shards[i];
    if (decl.kind != ShardKind::layers) continue;
    int64_t wanted = 0;
    for (int64_t layer = decl.layer; layer < decl.layer + decl.layers; ++layer)
      wanted += 4 * elements[static_cast<size_t>(layer)];
    EXPECT_EQ(weight_bytes(*build_shard(*plan, i, 1)), wanted) << decl.name;
    seen += decl.layers;
  }
  EXPECT_EQ(seen, 7);
}

}  // namespace
}  // namespace moec
