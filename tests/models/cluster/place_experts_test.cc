#include "models/cluster/place_experts.h"

#include <gmock/gmock.h>

#include <numeric>

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
  const auto groups = place_experts(&profile, kPlacedGrid, PlacePolicy::packed, {4, 4, 4});
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
  const auto groups = place_experts(&profile, kPlacedGrid, PlacePolicy::packed, {4, 4, 4});
  ASSERT_TRUE(groups);
  // Category c chooses experts with (expert + layer) % 3 == c.
  for (const ExpertGroup& group : *groups)
    for (const auto& [layer, experts] : group.experts.layers)
      EXPECT_EQ((experts.front() + layer) % 3, group.experts.layers.at(0).front() % 3)
          << group.name << " layer " << layer;
}

TEST(PlaceExperts, GivesSpareSlotsToHotExperts) {
  const ExpertProfile profile = profile_of(kPlacedGrid, 3, 7);
  const auto groups = place_experts(&profile, kPlacedGrid, PlacePolicy::packed, {5, 5, 5});
  ASSERT_TRUE(groups);
  EXPECT_TRUE(check_covered(*groups, kPlacedGrid, "groups"));
  for (const ExpertGroup& group : *groups) {
    EXPECT_TRUE(group.experts.has(1, 7)) << group.name;
    for (const auto& [layer, experts] : group.experts.layers) EXPECT_EQ(experts.size(), 5u);
  }
}

TEST(PlaceExperts, FillsNodesOfAnySize) {
  const ExpertProfile profile = profile_of(kPlacedGrid, 2);
  const auto groups = place_experts(&profile, kPlacedGrid, PlacePolicy::packed, {9, 2, 4});
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
  for (const PlacePolicy policy : {PlacePolicy::packed, PlacePolicy::contiguous}) {
    const auto groups = place_experts(&profile, grid, policy, {6, 9});
    ASSERT_TRUE(groups) << render(groups.error());
    EXPECT_TRUE(check_covered(*groups, grid, "groups"));
    for (const ExpertGroup& group : *groups) {
      std::vector<int64_t> of_group(3, 0);
      for (const int64_t expert : group.experts.layers.at(2))
        ++of_group[static_cast<size_t>(expert / 4)];
      EXPECT_THAT(of_group, testing::Each(of_group.front()));
    }
  }
  EXPECT_EQ(placing_of(place_experts(&profile, grid, PlacePolicy::packed, {7, 9})), "place.slots");
}

TEST(PlaceExperts, PlacesContiguousRangesWithoutAProfile) {
  const auto groups = place_experts(nullptr, kPlacedGrid, PlacePolicy::contiguous, {5, 5, 5});
  ASSERT_TRUE(groups);
  EXPECT_THAT((*groups)[1].experts.layers.at(0), ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT((*groups)[2].experts.layers.at(3), ElementsAre(7, 8, 9, 10, 11));
  EXPECT_EQ(placing_of(place_experts(nullptr, kPlacedGrid, PlacePolicy::packed, {6, 6})),
            "place.profile");
}

TEST(PlaceExperts, BalancesEqualCountsPerNode) {
  const ExpertProfile profile = profile_of(kPlacedGrid, 3, 2);
  const auto groups = place_experts(&profile, kPlacedGrid, PlacePolicy::balanced, {6, 6, 6});
  ASSERT_TRUE(groups) << render(groups.error());
  EXPECT_TRUE(check_covered(*groups, kPlacedGrid, "groups"));
  for (const ExpertGroup& group : *groups) EXPECT_EQ(group.experts.count(3, kPlacedGrid), 6);
  EXPECT_EQ(placing_of(place_experts(&profile, kPlacedGrid, PlacePolicy::balanced, {6, 7})),
            "place.balanced");
}

TEST(PlaceExperts, RejectsUnusableSlots) {
  const ExpertProfile profile = profile_of(kPlacedGrid, 3);
  const auto code = [&](const std::vector<int64_t>& slots) {
    return placing_of(place_experts(&profile, kPlacedGrid, PlacePolicy::packed, slots));
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
