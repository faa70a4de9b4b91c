#include "models/cluster/place_experts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/base/splitmix64.h"
#include "models/cluster/categorize_experts.h"
#include "models/cluster/pack_layer.h"

namespace moec {
namespace {

using testing::ElementsAre;

// Experts with equal remainders are chosen together; `hot` is chosen more often than the other
// experts.
LayerProfile layer_of(int64_t layer, int64_t experts, int64_t kinds, int64_t hot = -1) {
  LayerProfile profile{.layer = layer, .tokens = 1000};
  profile.together.assign(static_cast<size_t>(count_pairs(experts)), 1);
  profile.by_category.assign(static_cast<size_t>(kinds),
                             std::vector<int64_t>(static_cast<size_t>(experts), 1));
  for (int64_t e = 0; e < experts; ++e) {
    profile.selections.push_back(e == hot ? 900 : 100 - e);
    profile.mass.push_back(static_cast<double>(profile.selections.back()) / 2);
    profile.by_category[static_cast<size_t>((e + layer) % kinds)][static_cast<size_t>(e)] = 50;
    for (int64_t other = 0; other < e; ++other)
      if (e % kinds == other % kinds)
        profile.together[static_cast<size_t>(pair_at(other, e, experts))] = 40;
  }
  return profile;
}

ExpertProfile profile_of(const ExpertGrid& grid, int64_t kinds, int64_t hot = -1) {
  ExpertProfile profile{.experts = grid.experts, .top_k = grid.top_k};
  for (int64_t k = 0; k < kinds; ++k)
    profile.categories.push_back({"kind" + std::to_string(k), 1, 9});
  for (const int64_t layer : grid.layers)
    profile.layers.push_back(layer_of(layer, grid.experts, kinds, hot));
  return profile;
}

const ExpertGrid kPlacedGrid{{0, 1, 3}, 12, 2, 1, 1};

std::string placing_of(const Result<std::vector<ExpertGroup>>& groups) {
  return groups ? "fine" : groups.error().front().code;
}

TEST(PlaceExperts, GroupsExpertsThatAreChosenTogether) {
  const ExpertProfile profile = profile_of(kPlacedGrid, 3);
  const auto groups = place_experts(&profile, kPlacedGrid, {4, 4, 4}, {PlacePolicy::packed});
  ASSERT_TRUE(groups) << render(groups.error());
  EXPECT_TRUE(check_covered(*groups, kPlacedGrid, "groups"));
  for (const ExpertGroup& group : *groups)
    for (const auto& [layer, experts] : group.experts.layers) {
      ASSERT_EQ(experts.size(), 4u);
      for (const int64_t expert : experts) EXPECT_EQ(expert % 3, experts.front() % 3);
    }
}

TEST(PlaceExperts, MatchesLayersByCategory) {
  const ExpertProfile profile = profile_of(kPlacedGrid, 3);
  const auto groups = place_experts(&profile, kPlacedGrid, {4, 4, 4}, {PlacePolicy::packed});
  ASSERT_TRUE(groups);
  // Category c chooses experts with (expert + layer) % 3 == c.
  for (const ExpertGroup& group : *groups)
    for (const auto& [layer, experts] : group.experts.layers)
      EXPECT_EQ((experts.front() + layer) % 3, group.experts.layers.at(0).front() % 3)
          << group.name << " layer " << layer;
}

TEST(PlaceExperts, GivesSpareSlotsToHotExperts) {
  const ExpertProfile profile = profile_of(kPlacedGrid, 3, 7);
  const auto groups = place_experts(&profile, kPlacedGrid, {5, 5, 5}, {PlacePolicy::packed});
  ASSERT_TRUE(groups);
  EXPECT_TRUE(check_covered(*groups, kPlacedGrid, "groups"));
  for (const ExpertGroup& group : *groups) {
    EXPECT_TRUE(group.experts.has(1, 7)) << group.name;
    for (const auto& [layer, experts] : group.experts.layers) EXPECT_EQ(experts.size(), 5u);
  }
}

TEST(PlaceExperts, FillsNodesOfAnySize) {
  const ExpertProfile profile = profile_of(kPlacedGrid, 2);
  const auto groups = place_experts(&profile, kPlacedGrid, {9, 2, 4}, {PlacePolicy::packed});
  ASSERT_TRUE(groups);
  EXPECT_TRUE(check_covered(*groups, kPlacedGrid, "groups"));
  for (size_t node = 0; node < 3; ++node)
    for (const int64_t layer : kPlacedGrid.layers)
      EXPECT_EQ((*groups)[node].experts.count(layer, kPlacedGrid),
                (std::vector<int64_t>{9, 2, 4})[node]);
}

TEST(PlaceExperts, BalancesRouterGroupsPerNode) {
  const ExpertGrid grid{{2}, 12, 2, 3, 2};
  const ExpertProfile profile = profile_of(grid, 2, 5);
  for (const PlacePolicy policy :
       {PlacePolicy::categories, PlacePolicy::packed, PlacePolicy::contiguous}) {
    const auto groups = place_experts(&profile, grid, {6, 9}, {policy});
    ASSERT_TRUE(groups) << render(groups.error());
    EXPECT_TRUE(check_covered(*groups, grid, "groups"));
    for (const ExpertGroup& group : *groups) {
      std::vector<int64_t> of_group(3, 0);
      for (const int64_t expert : group.experts.layers.at(2))
        ++of_group[static_cast<size_t>(expert / 4)];
      EXPECT_THAT(of_group, testing::Each(of_group.front()));
    }
  }
  EXPECT_EQ(placing_of(place_experts(&profile, grid, {7, 9}, {PlacePolicy::packed})),
            "place.slots");
}

TEST(PlaceExperts, PlacesContiguousRangesWithoutAProfile) {
  const auto groups = place_experts(nullptr, kPlacedGrid, {5, 5, 5}, {PlacePolicy::contiguous});
  ASSERT_TRUE(groups);
  EXPECT_THAT((*groups)[1].experts.layers.at(0), ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT((*groups)[2].experts.layers.at(3), ElementsAre(7, 8, 9, 10, 11));
  EXPECT_EQ(placing_of(place_experts(nullptr, kPlacedGrid, {6, 6}, {PlacePolicy::packed})),
            "place.profile");
}

TEST(PlaceExperts, BalancesEqualCountsPerNode) {
  const ExpertProfile profile = profile_of(kPlacedGrid, 3, 2);
  const auto groups = place_experts(&profile, kPlacedGrid, {6, 6, 6}, {PlacePolicy::balanced});
  ASSERT_TRUE(groups) << render(groups.error());
  EXPECT_TRUE(check_covered(*groups, kPlacedGrid, "groups"));
  for (const ExpertGroup& group : *groups) EXPECT_EQ(group.experts.count(3, kPlacedGrid), 6);
  EXPECT_EQ(placing_of(place_experts(&profile, kPlacedGrid, {6, 7}, {PlacePolicy::balanced})),
            "place.balanced");
}

// Routing mass of the experts of one node only, per node, in one layer.
std::vector<double> single_masses(const std::vector<ExpertGroup>& groups,
                                  const LayerProfile& layer) {
  std::vector<double> masses(groups.size(), 0);
  for (size_t e = 0; e < layer.mass.size(); ++e) {
    std::vector<size_t> holders;
    for (size_t node = 0; node < groups.size(); ++node)
      if (groups[node].experts.has(layer.layer, static_cast<int64_t>(e))) holders.push_back(node);
    if (holders.size() == 1) masses[holders[0]] += layer.mass[e];
  }
  return masses;
}

TEST(PlaceExperts, SharesMassBySpeed) {
  const ExpertGrid grid{{0, 1}, 60, 2, 1, 1};
  const ExpertProfile profile = profile_of(grid, 4);
  const std::vector<double> speeds = {2, 3, 2, 2};
  const auto groups =
      place_experts(&profile, grid, {15, 15, 15, 15}, {PlacePolicy::packed, speeds});
  ASSERT_TRUE(groups) << render(groups.error());
  for (const LayerProfile& layer : profile.layers) {
    const std::vector<double> masses = single_masses(*groups, layer);
    const double sum = std::accumulate(masses.begin(), masses.end(), 0.0);
    // Four kinds of equal mass would exceed the share of the slow nodes.
    for (size_t node = 0; node < 4; ++node)
      EXPECT_LE(masses[node] / sum, 1.1 * speeds[node] / 9 + 1e-9) << node;
  }
}

TEST(PlaceExperts, KeepsCategoriesOnUnequalNodes) {
  const ExpertGrid grid{{0, 1, 2, 3, 4, 5}, 24, 2, 1, 1};
  const ExpertProfile profile = profile_of(grid, 3);
  ExpertProfile without_pairs = profile;
  for (LayerProfile& layer : without_pairs.layers) layer.together.clear();
  for (const ExpertProfile& own : {profile, without_pairs}) {
    const auto groups = place_experts(&own, grid, {8, 9, 10}, {PlacePolicy::packed});
    ASSERT_TRUE(groups) << render(groups.error());
    for (const ExpertGroup& group : *groups) {
      // Category c chooses experts with (expert + layer) % 3 == c.
      std::vector<int64_t> of_category(3, 0);
      for (const auto& [layer, experts] : group.experts.layers)
        for (const int64_t expert : experts)
          ++of_category[static_cast<size_t>((expert + layer) % 3)];
      EXPECT_GE(*std::max_element(of_category.begin(), of_category.end()), 40) << group.name;
    }
  }
}

TEST(PlaceExperts, CoversExpertsOfRandomClusters) {
  uint64_t state = 7;
  const auto random = [&](uint64_t most) { return splitmix64(state++) % (most + 1); };
  for (int round = 0; round < 60; ++round) {
    const auto router_groups = static_cast<int64_t>(1 + random(2));
    const ExpertGrid grid{{0, 2}, 4 * router_groups * 3, 2, router_groups, 1};
    const ExpertProfile profile = profile_of(grid, 1 + round % 4, round % 5 - 1);
    std::vector<int64_t> slots;
    std::vector<double> speeds;
    int64_t sum = 0;
    while (sum < grid.experts || random(2) > 0) {
      const int64_t each = 2 + static_cast<int64_t>(random(10));
      slots.push_back(router_groups * each);
      speeds.push_back(1 + static_cast<double>(random(9)));
      sum += slots.back();
    }
    // By default, categories if there are several.
    for (const auto policy : {std::optional<PlacePolicy>(), std::optional(PlacePolicy::packed)}) {
      const auto groups = place_experts(&profile, grid, slots, {policy, speeds});
      ASSERT_TRUE(groups) << render(groups.error());
      EXPECT_TRUE(check_covered(*groups, grid, "groups")) << policy.has_value();
      for (size_t node = 0; node < slots.size(); ++node)
        for (const int64_t layer : grid.layers)
          EXPECT_EQ((*groups)[node].experts.count(layer, grid), slots[node]);
    }
  }
}

// Experts of category c in layer l of profile_of() are those with (expert + l) % kinds == c.
bool is_of(int64_t expert, int64_t layer, size_t category, int64_t kinds) {
  return (expert + layer) % kinds == static_cast<int64_t>(category);
}

std::vector<Categories> categories_of_nodes(const ExpertProfile& profile,
                                            const std::vector<int64_t>& slots) {
  return CategoryPlacement(profile, kPlacedGrid,
                           CategoryPlacement::categories_of(profile, kPlacedGrid), slots)
      .of_nodes();
}

TEST(PlaceExperts, GivesEachCategoryANode) {
  const ExpertProfile profile = profile_of(kPlacedGrid, 3);
  const auto groups = place_experts(&profile, kPlacedGrid, {4, 4, 4}, {});
  ASSERT_TRUE(groups) << render(groups.error());
  const auto categories = categories_of_nodes(profile, {4, 4, 4});
  std::set<Categories> served;
  for (size_t node = 0; node < 3; ++node) {
    ASSERT_EQ(categories[node].size(), 1u);
    served.insert(categories[node]);
    for (const auto& [layer, experts] : (*groups)[node].experts.layers)
      for (const int64_t expert : experts)
        EXPECT_TRUE(is_of(expert, layer, categories[node][0], 3)) << expert << " layer " << layer;
  }
  EXPECT_EQ(served.size(), 3u);
}

TEST(PlaceExperts, MergesSimilarCategories) {
  ExpertProfile profile = profile_of(kPlacedGrid, 3);
  // Categories 0 and 2 select the same experts.
  for (LayerProfile& layer : profile.layers) layer.by_category[2] = layer.by_category[0];
  const auto categories = categories_of_nodes(profile, {6, 6});
  EXPECT_THAT(categories, testing::UnorderedElementsAre(Categories{0, 2}, Categories{1}));
  // Their nodes would have the same experts, so they share one if there are more nodes too.
  const auto repeated = categories_of_nodes(profile, {6, 6, 6, 6});
  EXPECT_EQ(repeated[0], repeated[2]);
  EXPECT_EQ(repeated[1], repeated[3]);
  EXPECT_EQ(repeated[0].size() + repeated[1].size(), 3u);
}

TEST(PlaceExperts, GivesLargeNodesToSpreadCategories) {
  ExpertProfile profile = profile_of(kPlacedGrid, 2);
  // Category 1 also selects the experts of category 0.
  for (LayerProfile& layer : profile.layers)
    for (int64_t& count : layer.by_category[1]) count = count == 50 ? 10 : 6;
  EXPECT_THAT(categories_of_nodes(profile, {6, 8}), ElementsAre(Categories{0}, Categories{1}));
}

TEST(PlaceExperts, LeavesOutUnselectedExpertsOnRequest) {
  ExpertProfile profile = profile_of(kPlacedGrid, 2);
  for (LayerProfile& layer : profile.layers)
    for (auto& own : layer.by_category) own.assign({9, 9, 9, 9, 9, 9, 1, 1, 1, 1, 1, 1});
  for (const bool allow : {false, true}) {
    const auto groups =
        place_experts(&profile, kPlacedGrid, {6, 6}, {PlacePolicy::categories, {}, allow});
    ASSERT_TRUE(groups);
    EXPECT_EQ(check_covered(*groups, kPlacedGrid, "groups").has_value(), !allow);
    if (allow) {
      EXPECT_EQ((*groups)[0].experts, (*groups)[1].experts);
    }
  }
}

TEST(PlaceExperts, CoversExpertsOnRepeatedNodes) {
  ExpertProfile profile = profile_of(kPlacedGrid, 2);
  for (LayerProfile& layer : profile.layers) {
    layer.by_category[0] = {9, 9, 9, 9, 9, 0, 0, 0, 0, 0, 1, 1};
    layer.by_category[1] = {0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 1, 1};
  }
  // The largest node of each category keeps its experts.
  const auto groups = place_experts(&profile, kPlacedGrid, {4, 5, 4, 5}, {PlacePolicy::categories});
  ASSERT_TRUE(groups) << render(groups.error());
  EXPECT_TRUE(check_covered(*groups, kPlacedGrid, "groups"));
  for (const int64_t layer : kPlacedGrid.layers) {
    std::set<std::vector<int64_t>> large;
    for (const size_t node : {1, 3}) large.insert((*groups)[node].experts.layers.at(layer));
    EXPECT_THAT(large, ElementsAre(ElementsAre(0, 1, 2, 3, 4), ElementsAre(5, 6, 7, 8, 9)));
  }
}

TEST(PlaceExperts, RejectsPoliciesWithoutTheirData) {
  ExpertProfile profile = profile_of(kPlacedGrid, 3);
  EXPECT_EQ(
      placing_of(place_experts(&profile, kPlacedGrid, {6, 6}, {PlacePolicy::packed, {}, true})),
      "place.uncovered");
  EXPECT_EQ(placing_of(place_experts(nullptr, kPlacedGrid, {6, 6}, {PlacePolicy::categories})),
            "place.profile");
  const auto ranges = place_experts(nullptr, kPlacedGrid, {6, 6}, {PlacePolicy::contiguous});
  EXPECT_EQ(*place_experts(nullptr, kPlacedGrid, {6, 6}, {}), *ranges);
  // A profile may list categories without their selections.
  for (LayerProfile& layer : profile.layers) layer.by_category.clear();
  EXPECT_EQ(placing_of(place_experts(&profile, kPlacedGrid, {6, 6}, {PlacePolicy::categories})),
            "place.profile");
  EXPECT_EQ(*place_experts(&profile, kPlacedGrid, {6, 6}, {}),
            *place_experts(&profile, kPlacedGrid, {6, 6}, {PlacePolicy::packed}));
}

TEST(PlaceExperts, RejectsUnusableSlots) {
  const ExpertProfile profile = profile_of(kPlacedGrid, 3);
  const auto code = [&](const std::vector<int64_t>& slots) {
    return placing_of(place_experts(&profile, kPlacedGrid, slots, {PlacePolicy::packed}));
  };
  EXPECT_EQ(code({5, 6}), "place.slots");
  EXPECT_EQ(code({12, 1}), "place.slots");
  EXPECT_EQ(code({13}), "place.slots");
  EXPECT_EQ(code({12}), "fine");
}

TEST(PlaceExperts, ComputesSharesOfTheRoutingMass) {
  const LayerProfile layer{.layer = 4, .selections = {1, 1, 2}, .mass = {0.5, 0.5, 3}};
  EXPECT_DOUBLE_EQ(kept_share(layer, {{{4, {0, 2}}}}), 3.5 / 4);
  EXPECT_DOUBLE_EQ(kept_share(layer, {}), 1);
  EXPECT_DOUBLE_EQ(kept_share({.layer = 4, .selections = {1, 3}}, {{{4, {1}}}}), 0.75);
  EXPECT_DOUBLE_EQ(kept_share({.layer = 4, .selections = {0, 0}}, {{{4, {1}}}}), 1);
}

TEST(PlaceExperts, PrefersSaliencyOverMassOverCounts) {
  LayerProfile layer{.selections = {10, 5}};
  EXPECT_THAT(expert_importance(layer), ElementsAre(10, 5));
  layer.mass = {3, 4};
  EXPECT_THAT(expert_importance(layer), ElementsAre(3, 4));
  layer.saliency = {0.5, 2};
  EXPECT_THAT(expert_importance(layer), ElementsAre(5, 10));
}

}  // namespace
}  // namespace moec
