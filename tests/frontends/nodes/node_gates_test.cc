#include "frontends/nodes/node_gates.h"

#include <gmock/gmock.h>

#include "ir/experts/expert_profile.h"

namespace moec {
namespace {

using testing::ElementsAre;

const GatesModel kModel{"mixtral", {{1, 3}, 4, 2}};

NodeGates node_gates(const std::string& name, const std::string& group, const std::string& experts,
                     int64_t tokens) {
  NodeGates gates{{.name = name, .url = "http://" + name + ":1", .group = group}, {}, {}};
  gates.experts = *parse_expert_sets(experts, kModel.grid, name);
  for (const int64_t number : kModel.grid.layers)
    gates.layers.push_back(
        {.layer = number,
         .tokens = tokens,
         .selections = {tokens, tokens, 0, 0},
         .mass = {0.75 * static_cast<double>(tokens), 0.25 * static_cast<double>(tokens), 0, 0},
         .together = {tokens, 0, 0, 0, 0, 0}});
  return gates;
}

TEST(NodeGates, AddsUpTheNodes) {
  std::vector<NodeGates> gates = {node_gates("a", "low", "*:0-1", 100),
                                  node_gates("b", "high", "*:2-3", 300),
                                  node_gates("c", "low", "*:0-1", 50)};
  const auto groups = groups_of_servers(gates);
  ASSERT_TRUE(groups) << render(groups.error());
  ASSERT_EQ(groups->size(), 2u);
  EXPECT_THAT(groups->front().servers, ElementsAre("a", "c"));
  EXPECT_THAT(groups->back().servers, ElementsAre("b"));
  const auto profile = profile_of_gates(gates, *groups, kModel);
  ASSERT_TRUE(profile) << render(profile.error());
  EXPECT_TRUE(check_profile(*profile, kModel.grid, "nodes"));
  EXPECT_EQ(profile->categories.front().name, "low");
  EXPECT_EQ(profile->categories.front().tokens, 150);
  const LayerProfile& layer = *find_layer(*profile, 3);
  EXPECT_EQ(layer.tokens, 450);
  EXPECT_THAT(layer.mass, ElementsAre(337.5, 112.5, 0, 0));
  EXPECT_THAT(layer.together, ElementsAre(450, 0, 0, 0, 0, 0));
  EXPECT_THAT(layer.by_category.back(), ElementsAre(300, 300, 0, 0));
  // The profile satisfies the checks of its file.
  const auto read = parse_expert_profile(expert_profile_text(*profile), "profile.json");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(*read, *profile);
}

TEST(NodeGates, RejectsUnequalReplicas) {
  const auto groups = groups_of_servers(
      {node_gates("a", "low", "*:0-1", 100), node_gates("b", "low", "*:2-3", 300)});
  ASSERT_FALSE(groups);
  EXPECT_EQ(groups.error().front().code, "gates.replicas");
}

TEST(NodeGates, RejectsNodesWithoutTokens) {
  const std::vector<NodeGates> gates = {node_gates("a", "low", "*:0-1", 0)};
  const auto profile = profile_of_gates(gates, *groups_of_servers(gates), kModel);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().front().code, "gates.no_tokens");
}

TEST(NodeGates, RejectsListsWithTwins) {
  for (const std::vector<std::string>& items :
       {std::vector<std::string>{"http://a:1", "http://a:1"},
        {"http://a"},
        {"https://a:1"},
        {"http://a:0"},
        {"http://a:1/v1"},
        {"http://:1"}}) {
    const auto servers = list_node_servers(items);
    ASSERT_FALSE(servers) << items.front();
    EXPECT_EQ(servers.error().front().code, "nodes.list") << items.front();
  }
  const auto servers = list_node_servers({"http://a:1", "http://a:2"});
  ASSERT_TRUE(servers);
  EXPECT_EQ(servers->back().name, "a:2");
}

}  // namespace
}  // namespace moec
