#include "models/cluster/forecast_nodes.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

// Two MoE layers of four experts, top-2. Each node has 100 bytes of trunk, of which 20 are tables,
// and experts of 10 bytes and 5 multiply-adds.
const ExpertGrid kForecastGrid{{0, 1}, 4, 2, 1, 1};

ClusterPlan two_nodes() {
  ClusterPlan plan;
  plan.stages = {{.first = 0,
                  .last = 1,
                  .trunk = 100,
                  .tables = 20,
                  .experts = 20,
                  .trunk_macs = 30,
                  .expert_macs = 10}};
  plan.slots = {2, 2};
  plan.machines = {{.name = "a", .bandwidth = 1000, .link = 100, .latency = 0.5},
                   {.name = "b", .bandwidth = 500, .link = 50}};
  return plan;
}

std::vector<ExpertGroup> two_groups() {
  return {{"node0", {{{0, {0, 1}}, {1, {0, 1}}}}}, {"node1", {{{0, {2, 3}}, {1, {2, 3}}}}}};
}

const std::vector<PromptClass> kHalf = {{"all", {{0.5, 0.25, 0.25, 0}, {0.25, 0, 0.25, 0.5}}}};

std::vector<GroupForecast> forecast_of(const ClusterPlan& plan, NodeMiss miss,
                                       const std::vector<PromptClass>& classes = kHalf) {
  const auto all = forecast_nodes(plan, kForecastGrid, two_groups(), classes, {miss, 4});
  if (all) return all->front();
  ADD_FAILURE() << render(all.error());
  return {};
}

TEST(ForecastNodes, ReadsTrunkAndTopKExperts) {
  const auto masked = forecast_of(two_nodes(), NodeMiss::mask);
  // 80 bytes of trunk, and two experts of two layers.
  EXPECT_DOUBLE_EQ(*masked[0].tokens_per_second, 1000.0 / 120);
  EXPECT_DOUBLE_EQ(*masked[1].tokens_per_second, 500.0 / 120);
  EXPECT_DOUBLE_EQ(masked[0].kept, 0.5);
  EXPECT_THAT(masked_speeds(two_nodes(), kForecastGrid, 4),
              testing::ElementsAre(*masked[0].tokens_per_second, *masked[1].tokens_per_second));
}

TEST(ForecastNodes, ReadsOnlyOwnExperts) {
  const auto skipping = forecast_of(two_nodes(), NodeMiss::skip);
  // Of two experts per layer, 0.75 + 0.25 are here.
  EXPECT_DOUBLE_EQ(*skipping[0].tokens_per_second, 1000.0 / (80 + 2 * 10));
  EXPECT_DOUBLE_EQ(skipping[1].kept, 0.5);
}

TEST(ForecastNodes, AddsRequestsToPeers) {
  const auto asking = forecast_of(two_nodes(), NodeMiss::peer);
  EXPECT_DOUBLE_EQ(asking[0].kept, 1);
  // Layer 0: 0.5 of two experts on the peer; layer 1: 1.5.
  const double own = (80 + 1.5 * 10 + 0.5 * 10) / 1000, peer = (0.5 * 10 + 1.5 * 10) / 500;
  const double requests = (1 - 0.75 * 0.75) + (1 - 0.25 * 0.25);
  // 16 bytes each way at the slower link.
  EXPECT_DOUBLE_EQ(*asking[0].tokens_per_second,
                   1 / (own + peer + requests * (0.5 + 2 * 16.0 / 50)));
  EXPECT_LT(*asking[0].tokens_per_second,
            *forecast_of(two_nodes(), NodeMiss::mask)[0].tokens_per_second);
}

TEST(ForecastNodes, LimitsSpeedByOperations) {
  ClusterPlan plan = two_nodes();
  plan.machines[0].flops = 10;
  // 30 + 2 * 10 multiply-adds.
  EXPECT_DOUBLE_EQ(*forecast_of(plan, NodeMiss::mask)[0].tokens_per_second, 10.0 / 100);
  plan.machines[0].flops = 1e12;
  EXPECT_DOUBLE_EQ(*forecast_of(plan, NodeMiss::mask)[0].tokens_per_second, 1000.0 / 120);
}

TEST(ForecastNodes, VisitsAllStages) {
  ClusterPlan plan = two_nodes();
  plan.stages = {{.first = 0, .last = 0, .trunk = 60, .tables = 20, .experts = 10},
                 {.first = 1, .last = 1, .trunk = 40, .experts = 10}};
  plan.slots = {2};
  const auto all =
      forecast_nodes(plan, kForecastGrid, {two_groups()[0]}, kHalf, {NodeMiss::mask, 4});
  ASSERT_TRUE(all);
  // The second node has half of the bandwidth; between them are half of the latency and 16 bytes.
  EXPECT_DOUBLE_EQ(*all->front()[0].tokens_per_second,
                   1 / (60.0 / 1000 + 60.0 / 500 + 0.25 + 16.0 / 50));
}

TEST(ForecastNodes, GrowsWithBandwidth) {
  for (const NodeMiss miss : {NodeMiss::mask, NodeMiss::skip, NodeMiss::peer}) {
    double previous = 0;
    for (double bandwidth = 100; bandwidth < 1e12; bandwidth *= 3) {
      ClusterPlan plan = two_nodes();
      plan.machines[0].bandwidth = bandwidth;
      const double own = *forecast_of(plan, miss)[0].tokens_per_second;
      EXPECT_GT(own, previous);
      previous = own;
    }
  }
}

TEST(ForecastNodes, RequiresLinksForPeers) {
  ClusterPlan plan = two_nodes();
  for (ClusterNode& node : plan.machines) node.link = 0;
  const auto none = forecast_nodes(plan, kForecastGrid, two_groups(), kHalf, {NodeMiss::peer, 4});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().front().code, "place.link");
  for (ClusterNode& node : plan.machines) node.bandwidth = 0;
  EXPECT_FALSE(forecast_of(plan, NodeMiss::mask)[0].tokens_per_second);
}

TEST(ForecastNodes, SurvivesClassesWithoutExperts) {
  // The class uses only experts that neither group has in layer 0, and none in layer 1.
  const std::vector<PromptClass> odd = {{"odd", {{0, 0, 0, 1}, {}}}};
  for (const NodeMiss miss : {NodeMiss::mask, NodeMiss::skip, NodeMiss::peer}) {
    auto groups = two_groups();
    groups[1].experts.layers[0] = {1, 2};
    const auto all = forecast_nodes(two_nodes(), kForecastGrid, groups, odd, {miss, 4});
    ASSERT_TRUE(all);
    EXPECT_DOUBLE_EQ(all->front()[0].kept, 0.5);
    EXPECT_GT(*all->front()[0].tokens_per_second, 0);
  }
}

TEST(PromptClasses, ReadsCategoriesOfTheProfile) {
  ExpertProfile profile{.experts = 4, .top_k = 2};
  profile.categories = {{"code", 1, 9}, {"none", 1, 9}};
  for (const int64_t layer : kForecastGrid.layers)
    profile.layers.push_back({.layer = layer,
                              .tokens = 9,
                              .selections = {4, 0, 0, 4},
                              .mass = {1, 0, 0, 3},
                              .by_category = {{4, 0, 0, 4}, {0, 0, 0, 0}}});
  const auto classes = prompt_classes(&profile, kForecastGrid);
  ASSERT_EQ(classes.size(), 2u) << "a category without experts is omitted";
  EXPECT_EQ(classes[1].name, "code");
  const ExpertSets sets = two_groups()[0].experts;
  EXPECT_DOUBLE_EQ(kept_share(classes[0], kForecastGrid, sets), 0.25) << "by mass";
  EXPECT_DOUBLE_EQ(kept_share(classes[1], kForecastGrid, sets), 0.5) << "by selections";
  EXPECT_DOUBLE_EQ(kept_share(classes[1], kForecastGrid, {}), 1);
  const auto uniform = prompt_classes(nullptr, kForecastGrid);
  ASSERT_EQ(uniform.size(), 1u);
  EXPECT_DOUBLE_EQ(kept_share(uniform[0], kForecastGrid, sets), 0.5);
}

}  // namespace
}  // namespace moec
