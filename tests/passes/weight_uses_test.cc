#include "models/shards/weight_uses.h"

#include <gmock/gmock.h>

#include "models/shards/needed_tensors.h"
#include "tests/passes/golden_plans.h"

namespace moec {
namespace {

class WeightUsesOf : public testing::TestWithParam<const char*> {};

TEST_P(WeightUsesOf, AssignsAGroupToEveryRole) {
  const Plan plan = golden_plan(GetParam(), {.context = 16});
  for (const NeededRole& needed : needed_roles(plan.model))
    EXPECT_TRUE(group_of_role(needed.role).has_value()) << needed.role;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const auto uses = weight_uses(plan, i);
    const Shard shard = golden_shard(plan, i, 1);
    for (const Op& op : shard.ops)
      if (const auto* weight = std::get_if<Weight>(&op.data))
        for_each_tensor(weight->view, [&](const TensorSource& tensor, const Type&) {
          EXPECT_TRUE(uses.contains(tensor.name)) << tensor.name;
        });
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, WeightUsesOf, testing::ValuesIn(kGoldenCases), case_name);

TEST(WeightUses, NameGroupLayerAndExpert) {
  const Plan plan = golden_plan("qwen3_moe_a", {.context = 16});
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    if (plan.shards[i].kind != ShardKind::moe) continue;
    const auto uses = weight_uses(plan, i);
    const WeightUse use = uses.at(plan.model.names("expert_up", plan.shards[i].layer, 1));
    EXPECT_EQ(use, (WeightUse{WeightGroup::experts, {plan.shards[i].layer, 1, "expert_up"}}));
    EXPECT_EQ(uses.at(plan.model.names("router", plan.shards[i].layer)).group, WeightGroup::router);
  }
}

TEST(WeightUses, ReturnTheFormsOfAShard) {
  BuildOptions build{.context = 16};
  build.weights = {{{WeightGroup::experts, std::nullopt, AffineForm{}}}};
  const Plan plan = golden_plan("qwen3_moe_a", build);
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const WeightForms forms = weight_forms(plan, i);
    const bool experts = plan.shards[i].kind == ShardKind::moe;
    EXPECT_EQ(forms.all_float(), !experts) << plan.shards[i].name;
    if (experts) {
      EXPECT_EQ(std::ssize(forms.by_source), 3 * plan.model.moe.experts) << plan.shards[i].name;
    }
  }
}

}  // namespace
}  // namespace moec
