// The weight owners derived from a graph must match those of the checkpoint's tensors.
#include "frontends/compile/check_owners.h"

#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "tests/models/expect_error.h"
#include "tests/passes/golden_plans.h"

namespace moec {
namespace {

struct Placed {
  Plan plan;
  size_t index = 0;
  std::map<std::string, WeightUse> uses;
  Shard shard;
};

// Returns the first shard of a golden case that contains experts.
Placed placed_experts(const std::string& golden_case) {
  Placed placed{golden_plan(golden_case, {.tokens = {1}, .context = 16}), 0, {}, {}};
  while (placed.plan.shards[placed.index].kind != ShardKind::moe) ++placed.index;
  placed.uses = weight_uses(placed.plan, placed.index);
  PassContext context;
  const Shard model = golden_shard(placed.plan, placed.index, 1);
  auto run = run_pipeline(model, default_pipeline(context.options), context, {});
  EXPECT_TRUE(run) << render(run.error());
  if (run) placed.shard = std::move(run->shard);
  return placed;
}

Weight& weight_of(Shard& shard, std::string_view name) {
  for (OpId id : op_ids(shard))
    if (auto* weight = std::get_if<Weight>(&shard.ops[id].data);
        weight && shard.values[shard.ops[id].results[0]].name == name)
      return *weight;
  ADD_FAILURE() << name;
  return std::get<Weight>(shard.ops[OpId{0}].data);
}

TEST(CheckOwners, AcceptsMatchingGraphs) {
  for (const char* name : {"tinymoe", "gpt_oss_a", "deepseek_v3_a"}) {
    const Placed placed = placed_experts(name);
    const Status checked = check_owners(placed.plan, placed.index, placed.uses, placed.shard);
    EXPECT_TRUE(checked) << render(checked.error());
  }
}

TEST(CheckOwners, FindsSwappedTensors) {
  Placed placed = placed_experts("tinymoe");
  Weight& norm = weight_of(placed.shard, "ffn_norm.weight");
  Weight& gate = weight_of(placed.shard, "experts.3.gate.weight");
  std::swap(norm.view, gate.view);
  const Status checked = check_owners(placed.plan, placed.index, placed.uses, placed.shard);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().size(), 2u);
  expect_error(checked, "compile.owner", "read from experts, but the graph uses it as plain");
}

}  // namespace
}  // namespace moec
