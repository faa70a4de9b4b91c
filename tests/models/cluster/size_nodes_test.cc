#include "models/cluster/size_nodes.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Layer 0 is dense; each other layer has 8 experts of 10 bytes.
const ExpertGrid kSizedGrid{{1, 2, 3}, 8, 2, 1, 1};

ModelBytes sized_model() {
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
  return bytes_by_layer(units, kSizedGrid, 4);
}

std::string sizing_of(const NodeRequest& request) {
  const auto plan = size_nodes(sized_model(), kSizedGrid, request);
  return plan ? "fine" : plan.error().front().code;
}

TEST(SizeNodes, SumsTheBytesOfUnits) {
  const ModelBytes model = sized_model();
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
  const auto plan =
      size_nodes(sized_model(), kSizedGrid, {.nodes = 2, .memory = {140 + 5 * 30 + 29, 400}});
  ASSERT_TRUE(plan) << render(plan.error());
  EXPECT_THAT(plan->slots, ElementsAre(5, 8));
  EXPECT_EQ(plan->bytes(0), 133 + 150);
  EXPECT_EQ(plan->bytes(1), 133 + 240);
}

TEST(SizeNodes, ReturnsTheNeededNodes) {
  const auto plan = size_nodes(sized_model(), kSizedGrid, {.memory = {140 + 3 * 30}});
  ASSERT_TRUE(plan) << render(plan.error());
  EXPECT_THAT(plan->slots, ElementsAre(3, 3, 3));
  EXPECT_EQ(size_nodes(sized_model(), kSizedGrid, {.memory = {1000}})->nodes(), 1u);
  EXPECT_EQ(sizing_of({.memory = {140 + 59}}), "place.memory") << "a token chooses two";
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
      size_nodes(sized_model(), kSizedGrid, {.nodes = 2, .replicas = 10, .memory = {1000}})->slots,
      ElementsAre(5, 5));
  EXPECT_EQ(sizing_of({.nodes = 2, .replicas = 17}), "place.memory");
  const ExpertGrid grouped{{1, 2, 3}, 8, 2, 4, 2};
  EXPECT_THAT(size_nodes(sized_model(), grouped, {.nodes = 3})->slots, ElementsAre(4, 4, 4));
}

TEST(SizeNodes, RejectsInvalidCounts) {
  EXPECT_EQ(sizing_of({}), "place.nodes");
  EXPECT_EQ(sizing_of({.nodes = 3, .stages = 2}), "place.nodes");
  EXPECT_EQ(sizing_of({.nodes = 5, .stages = 5}), "place.nodes");
  EXPECT_EQ(sizing_of({.nodes = 3, .memory = {1000, 1000}}), "place.nodes");
  EXPECT_EQ(sizing_of({.nodes = 2, .memory = {200}}), "place.memory");
  const auto small = size_nodes(sized_model(), kSizedGrid, {.nodes = 1, .memory = {100}});
  ASSERT_FALSE(small);
  EXPECT_THAT(render(small.error()), HasSubstr("layers 0 to 3"));
}

}  // namespace
}  // namespace moec
