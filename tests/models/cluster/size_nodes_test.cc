#include "models/cluster/size_nodes.h"

#include <gmock/gmock.h>

#include "ir/base/splitmix64.h"

namespace moec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Layer 0 is dense; each other layer has 8 experts of 10 bytes.
const ExpertGrid kSizedGrid{{1, 2, 3}, 8, 2, 1, 1};

ModelCost sized_model() {
  std::vector<DeviceUnit> units = {{.name = "tables", .bytes = 50}};
  for (int64_t layer = 0; layer < 4; ++layer) {
    units.push_back({.name = "attn", .layer = layer, .bytes = 5, .peak_bytes = 2});
    units.push_back({.name = "ffn",
                     .layer = layer,
                     .bytes = layer == 0 ? 20 : 81,
                     .peak_bytes = 3,
                     .expert_bytes = layer == 0 ? 0 : 80});
  }
  units.push_back({.name = "head", .bytes = 40, .peak_bytes = 7});
  return cost_by_layer(units, kSizedGrid, 4);
}

std::vector<ClusterNode> memories(const std::vector<int64_t>& bytes) {
  std::vector<ClusterNode> nodes;
  for (const int64_t own : bytes) nodes.push_back({.memory = own});
  return nodes;
}

std::string sizing_of(const NodeRequest& request) {
  const auto plan = size_nodes(sized_model(), kSizedGrid, request);
  return plan ? "fine" : plan.error().front().code;
}

TEST(SizeNodes, SumsTheBytesOfUnits) {
  const ModelCost model = sized_model();
  EXPECT_EQ(model.tables.trunk, 50);
  EXPECT_EQ(model.head.trunk, 40);
  EXPECT_EQ(model.layers[0].trunk, 25);
  EXPECT_EQ(model.layers[0].expert, 0);
  EXPECT_EQ(model.layers[2].trunk, 6);
  EXPECT_EQ(model.layers[2].expert, 10);
  EXPECT_EQ(model.layers[2].peak, 3);
}

TEST(SizeNodes, FillsTheMemoryOfEachNode) {
  // The trunk needs 133 bytes and 7 of activations; one expert per layer needs 30.
  const auto plan = size_nodes(sized_model(), kSizedGrid,
                               {.nodes = 2, .pool = memories({140 + 5 * 30 + 29, 400})});
  ASSERT_TRUE(plan) << render(plan.error());
  EXPECT_THAT(plan->slots, ElementsAre(5, 8));
  EXPECT_EQ(plan->bytes(0), 133 + 150);
  EXPECT_EQ(plan->bytes(1), 133 + 240);
}

TEST(SizeNodes, ReturnsTheNeededNodes) {
  const auto plan = size_nodes(sized_model(), kSizedGrid, {.pool = memories({140 + 3 * 30})});
  ASSERT_TRUE(plan) << render(plan.error());
  EXPECT_THAT(plan->slots, ElementsAre(3, 3, 3));
  EXPECT_EQ(size_nodes(sized_model(), kSizedGrid, {.pool = memories({1000})})->nodes(), 1u);
  EXPECT_EQ(sizing_of({.pool = memories({140 + 59})}), "place.memory") << "a token chooses two";
}

TEST(SizeNodes, SharesLayersBetweenStages) {
  const auto plan = size_nodes(sized_model(), kSizedGrid, {.nodes = 4, .stages = 2});
  ASSERT_TRUE(plan) << render(plan.error());
  ASSERT_EQ(plan->stages.size(), 2u);
  EXPECT_EQ(plan->stages[0].first, 0);
  EXPECT_EQ(plan->stages[0].last, 1);
  EXPECT_EQ(plan->stages[0].trunk, 50 + 25 + 6);
  EXPECT_EQ(plan->stages[1].trunk, 12 + 40);
  EXPECT_EQ(plan->stages[1].experts, 20);
  EXPECT_EQ(plan->stages[1].last, 3);
  EXPECT_THAT(plan->slots, ElementsAre(4, 4));
  EXPECT_EQ(plan->bytes(0), 81 + 40);
  EXPECT_EQ(plan->bytes(3), 52 + 80);
  for (int64_t stages = 1; stages <= 4; ++stages)
    EXPECT_EQ(size_nodes(sized_model(), kSizedGrid, {.nodes = stages, .stages = stages})
                  ->stages.back()
                  .last,
              3);
}

TEST(SizeNodes, UsesTheRequestedReplicas) {
  EXPECT_THAT(size_nodes(sized_model(), kSizedGrid, {.nodes = 3})->slots, ElementsAre(3, 3, 3));
  EXPECT_THAT(size_nodes(sized_model(), kSizedGrid, {.nodes = 3, .replicas = 16})->slots,
              ElementsAre(6, 6, 6));
  EXPECT_THAT(
      size_nodes(sized_model(), kSizedGrid, {.nodes = 2, .replicas = 10, .pool = memories({1000})})
          ->slots,
      ElementsAre(5, 5));
  EXPECT_EQ(sizing_of({.nodes = 2, .replicas = 17}), "place.memory");
  const ExpertGrid grouped{{1, 2, 3}, 8, 2, 4, 2};
  EXPECT_THAT(size_nodes(sized_model(), grouped, {.nodes = 3})->slots, ElementsAre(4, 4, 4));
}

TEST(SizeNodes, RejectsInvalidCounts) {
  EXPECT_EQ(sizing_of({}), "place.nodes");
  EXPECT_EQ(sizing_of({.nodes = 3, .stages = 2}), "place.nodes");
  EXPECT_EQ(sizing_of({.nodes = 5, .stages = 5}), "place.nodes");
  EXPECT_EQ(sizing_of({.nodes = 3, .pool = memories({1000, 1000})}), "place.nodes");
  EXPECT_EQ(sizing_of({.nodes = 2, .pool = memories({200})}), "place.memory");
  const auto small = size_nodes(sized_model(), kSizedGrid, {.nodes = 1, .pool = memories({100})});
  ASSERT_FALSE(small);
  EXPECT_THAT(render(small.error()), HasSubstr("layers 0 to 3"));
}

TEST(SizeNodes, SeparatesTheWorkOfExperts) {
  // 8 experts of 10 multiply-adds, of which a token uses 2.
  const std::vector<DeviceUnit> units = {
      {.name = "head", .macs = 7, .macs_active = 7},
      {.name = "ffn", .layer = 1, .macs = 85, .macs_active = 25}};
  const ModelCost model = cost_by_layer(units, kSizedGrid, 2);
  EXPECT_EQ(model.layers[1].expert_macs, 10);
  EXPECT_EQ(model.layers[1].trunk_macs, 5);
  EXPECT_EQ(model.head.trunk_macs, 7);
}

TEST(SizeNodes, ChoosesTheLargestNodes) {
  NodeRequest request{.pool = memories({140 + 60, 140 + 240, 140 + 90, 140 + 150}), .choose = true};
  for (size_t i = 0; i < 4; ++i) request.pool[i].name = std::string(1, "abcd"[i]);
  const auto least = size_nodes(sized_model(), kSizedGrid, request);
  ASSERT_TRUE(least) << render(least.error());
  EXPECT_THAT(least->slots, ElementsAre(8)) << "one node has room for all";
  EXPECT_EQ(least->machines[0].name, "b");
  request.nodes = 3;
  const auto three = size_nodes(sized_model(), kSizedGrid, request);
  ASSERT_TRUE(three) << render(three.error());
  EXPECT_THAT(three->slots, ElementsAre(8, 5, 3));
  EXPECT_EQ(three->machines[2].name, "c");
  request.nodes = 5;
  EXPECT_EQ(sizing_of(request), "place.nodes");
}

TEST(SizeNodes, GroupsNodesOfSimilarSize) {
  // Stage 0 needs 81 + 3 bytes and 10 per expert, stage 1 52 + 7 bytes and 20 per expert.
  const NodeRequest request{
      .nodes = 4, .stages = 2, .pool = memories({160, 240, 160, 240}), .choose = true};
  const auto plan = size_nodes(sized_model(), kSizedGrid, request);
  ASSERT_TRUE(plan) << render(plan.error());
  EXPECT_THAT(plan->slots, ElementsAre(8, 5));
  for (size_t group = 0; group < 2; ++group)
    EXPECT_EQ(plan->machines[plan->node_at(0, group)].memory,
              plan->machines[plan->node_at(1, group)].memory);
}

TEST(SizeNodes, SharesCopiesByBandwidth) {
  NodeRequest request{.nodes = 3, .replicas = 12, .pool = memories({1000, 1000, 1000})};
  request.pool[0].bandwidth = 4e9;
  request.pool[1].bandwidth = request.pool[2].bandwidth = 1e9;
  EXPECT_THAT(size_nodes(sized_model(), kSizedGrid, request)->slots, ElementsAre(8, 2, 2));
  request.pool[2].min_experts = 3;
  EXPECT_THAT(size_nodes(sized_model(), kSizedGrid, request)->slots, ElementsAre(7, 2, 3));
}

TEST(SizeNodes, RejectsUnreachableMinima) {
  NodeRequest request{.nodes = 2, .pool = memories({140 + 90, 140 + 240})};
  request.pool[0].min_experts = 3;
  EXPECT_EQ(sizing_of(request), "fine");
  request.pool[0].min_experts = 4;
  EXPECT_EQ(sizing_of(request), "place.memory");
  request.pool[0].min_experts = 9;
  EXPECT_EQ(sizing_of(request), "place.nodes") << "the model has 8";
  // A group has the minimum of all of its nodes.
  NodeRequest staged{.nodes = 2, .stages = 2, .pool = memories({1000, 59 + 5 * 20})};
  staged.pool[0].min_experts = 6;
  EXPECT_EQ(sizing_of(staged), "place.memory");
}

TEST(SizeNodes, KeepsLimitsOfRandomNodes) {
  uint64_t state = 1;
  const auto random = [&](int64_t most) {
    return static_cast<int64_t>(splitmix64(state++) % static_cast<uint64_t>(most + 1));
  };
  for (int round = 0; round < 500; ++round) {
    NodeRequest request{.replicas = round % 2 == 0 ? 0 : 8 + random(8), .choose = true};
    for (int64_t node = 0; node <= random(6); ++node)
      request.pool.push_back({.memory = 140 + 60 + random(300),
                              .bandwidth = 1e9 * static_cast<double>(1 + random(9)),
                              .min_experts = random(4)});
    const auto plan = size_nodes(sized_model(), kSizedGrid, request);
    if (!plan) continue;
    int64_t all = 0;
    for (size_t node = 0; node < plan->nodes(); ++node) {
      const ClusterNode& machine = plan->machines[node];
      EXPECT_LE(plan->bytes(node) + plan->stages[0].peak, machine.memory);
      EXPECT_GE(plan->slots[node], std::max<int64_t>(2, machine.min_experts));
      all += plan->slots[node];
    }
    EXPECT_GE(all, std::max<int64_t>(8, request.replicas));
  }
}

}  // namespace
}  // namespace moec
