#include "frontends/jobs/plan/placement_change.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::DoubleEq;
using testing::IsEmpty;

const ExpertGrid kSmall{{0, 2}, 4, 2};

ExpertSets small_sets(const std::string& text) {
  return text.empty() ? ExpertSets() : *parse_expert_sets(text, kSmall, "test");
}

std::vector<NodeGroup> low_and_high() {
  return {{"low", {"a"}, small_sets("*:0-1")}, {"high", {"b", "c"}, small_sets("*:2-3")}};
}

NodeGates wanting(const std::string& name, const std::string& group,
                  const std::vector<double>& mass) {
  NodeGates gates{{.name = name, .group = group}, {}, {}};
  for (const int64_t number : kSmall.layers)
    gates.layers.push_back({.layer = number, .tokens = 1000, .mass = mass});
  for (LayerProfile& layer : gates.layers) layer.selections.assign(4, 1);
  return gates;
}

TEST(PlacementChange, CountsTheFewestCopies) {
  EXPECT_EQ(copies_of(low_and_high(), kSmall), 4);
  // A layer without a set has all experts.
  EXPECT_EQ(copies_of({{"low", {}, small_sets("L0:0-1")}, {"all", {}, {}}}, kSmall), 6);
}

// The mass of `low` and `high` is the same for all experts.
std::vector<NodeGates> wanting_nothing_in_particular() {
  return {wanting("a", "low", {1, 1, 1, 1}), wanting("b", "high", {1, 1, 1, 1})};
}

TEST(PlacementChange, KeepsEquallyWantedSets) {
  std::vector<ExpertGroup> groups = {{"node0", small_sets("L0:2-3;L2:0-1")},
                                     {"node1", small_sets("*:0,2")},
                                     {"node2", small_sets("L0:0-1;L2:2-3")}};
  assign_sets(wanting_nothing_in_particular(), low_and_high(), kSmall, {2, 2, 2}, groups);
  EXPECT_EQ(to_string(groups[0].experts), to_string(small_sets("*:0-1")));
  EXPECT_EQ(to_string(groups[1].experts), to_string(small_sets("*:2-3")));
  EXPECT_EQ(groups[0].name, "node0") << "names stay in order";
}

TEST(PlacementChange, KeepsSizesOfGroups) {
  std::vector<ExpertGroup> groups = {{"node0", small_sets("*:2-3")},
                                     {"node1", small_sets("*:0-2")}};
  assign_sets(wanting_nothing_in_particular(), low_and_high(), kSmall, {2, 3}, groups);
  EXPECT_EQ(to_string(groups[0].experts), to_string(small_sets("*:2-3")));
}

TEST(PlacementChange, AssignsSetsToTheirTexts) {
  std::vector<ExpertGroup> groups = {{"node0", small_sets("*:0-1")},
                                     {"node1", small_sets("*:2-3")}};
  assign_sets({wanting("a", "low", {0, 0, 5, 5}), wanting("b", "high", {0, 0, 4, 4})},
              low_and_high(), kSmall, {2, 2}, groups);
  EXPECT_EQ(to_string(groups[0].experts), to_string(small_sets("*:2-3")));
}

TEST(PlacementChange, NotesPlacementsWithoutGain) {
  PlacementChange change;
  change.kept_before = change.kept_after = 0.5;
  ASSERT_EQ(note_no_gain(change).size(), 1u);
  change.kept_after = 0.6;
  EXPECT_THAT(note_no_gain(change), IsEmpty());
}

TEST(PlacementChange, ReportsMovesAndShares) {
  const std::vector<NodeGates> gates = {wanting("a", "low", {1, 1, 2, 0}),
                                        wanting("b", "high", {0, 0, 1, 1}),
                                        wanting("c", "high", {2, 0, 0, 0})};
  const std::vector<LayerCost> layers = {{0, 10, 0}, {0, 0, 0}, {0, 100, 0}};
  const std::vector<ExpertGroup> groups = {{"node0", small_sets("*:0-2")},
                                           {"node1", small_sets("L0:0,3;L2:2-3")},
                                           {"node2", small_sets("*:1-2")}};
  const PlacementChange change = change_of(gates, low_and_high(), kSmall, layers, groups);
  ASSERT_EQ(change.nodes.size(), 3u);
  const NodeChange &low = change.nodes[0], &high = change.nodes[1], &fresh = change.nodes[2];
  EXPECT_EQ(to_string(low.gained), "L0:2;L2:2");
  EXPECT_THAT(low.lost.layers, IsEmpty());
  EXPECT_EQ(low.bytes, 110);
  EXPECT_EQ(low.tokens, 1);
  EXPECT_THAT(low.kept_before, DoubleEq(0.5));
  EXPECT_THAT(low.kept_after, DoubleEq(1));
  EXPECT_EQ(to_string(high.gained), "L0:0");
  EXPECT_EQ(to_string(high.lost), "L0:2");
  EXPECT_EQ(high.tokens, 2);
  EXPECT_THAT(high.kept_before, DoubleEq(0.5));
  EXPECT_THAT(high.kept_after, DoubleEq((0.75 + 0.5) / 2));
  EXPECT_THAT(fresh.servers, IsEmpty());
  EXPECT_EQ(fresh.bytes, 220);
  EXPECT_EQ(change.bytes, 110 + 10 + 220);
  EXPECT_THAT(change.kept_before, DoubleEq(0.5));
  EXPECT_THAT(change.kept_after, DoubleEq((1 + 2 * 0.625) / 3));
}

}  // namespace
}  // namespace moec
