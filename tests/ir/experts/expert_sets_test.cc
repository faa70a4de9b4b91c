#include "ir/experts/expert_sets.h"

#include <gmock/gmock.h>

#include "ir/experts/expert_difference.h"
#include "ir/experts/expert_groups.h"

namespace moec {
namespace {

using testing::HasSubstr;

// Layer 0 is dense.
const ExpertGrid kGrid{{1, 2, 3, 5}, 8, 2, 1, 1};

ExpertSets sets_of(std::string_view text) {
  auto sets = parse_expert_sets(text, kGrid, "--expert-mask");
  EXPECT_TRUE(sets.has_value()) << render(sets.error());
  return sets.value_or(ExpertSets());
}

std::string set_error(std::string_view text) {
  const auto sets = parse_expert_sets(text, kGrid, "--expert-mask");
  EXPECT_FALSE(sets.has_value()) << text;
  return sets ? "" : render(sets.error());
}

TEST(ExpertSets, ReadsLayersAndRanges) {
  const ExpertSets sets = sets_of("L1:0-2,7; L2-3:1,1,5");
  EXPECT_EQ(sets.layers.at(1), (std::vector<int64_t>{0, 1, 2, 7}));
  EXPECT_EQ(sets.layers.at(2), (std::vector<int64_t>{1, 5}));
  EXPECT_EQ(sets.layers.at(3), sets.layers.at(2));
  EXPECT_FALSE(sets.layers.contains(5));
  EXPECT_TRUE(sets.has(1, 7));
  EXPECT_FALSE(sets.has(1, 6));
  EXPECT_TRUE(sets.has(5, 6));
  EXPECT_EQ(sets.count(1, kGrid), 4);
  EXPECT_EQ(sets.count(5, kGrid), 8);
}

TEST(ExpertSets, AppliesStarToUnnamedLayers) {
  const ExpertSets sets = sets_of("# by category\n*:4-7  # the second half\nL2:0,1\n\n");
  EXPECT_EQ(sets.layers.at(1), (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(sets.layers.at(2), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(sets.layers.size(), 4u);
}

TEST(ExpertSets, PrintsTheCanonicalText) {
  EXPECT_EQ(to_string(sets_of("L3:1,5;L1:7,0,1,2;L2:1,5;L5:5,1")), "L1:0-2,7;L2-3:1,5;L5:1,5");
  EXPECT_EQ(to_string(ExpertSets()), "");
}

TEST(ExpertSets, RejectsUnknownLayersAndExperts) {
  EXPECT_THAT(set_error("L0:1"), HasSubstr("[experts.layer]"));
  EXPECT_THAT(set_error("L3-5:1"), HasSubstr("the layers with experts are 1-3,5"));
  EXPECT_THAT(set_error("L1:8"), HasSubstr("[experts.expert]"));
  EXPECT_THAT(set_error("L1:0-99999999999"), HasSubstr("[experts.expert]"));
  EXPECT_THAT(set_error("L1:0;L1-2:1"), HasSubstr("[experts.twice]"));
  EXPECT_THAT(set_error("*:0;*:1"), HasSubstr("[experts.twice]"));
  for (const char* text : {"1:0", "L1", "L1:", "L1:3-1", "L1:-1", "L1:a", "L:1", "L1:0,,1"})
    EXPECT_THAT(set_error(text), HasSubstr("[experts.item]")) << text;
}

TEST(ExpertSets, RejectsTooFewExperts) {
  EXPECT_TRUE(check_enough(sets_of("*:3,4"), kGrid, "mask"));
  const auto few = check_enough(sets_of("L2:3"), kGrid, "mask");
  ASSERT_FALSE(few);
  EXPECT_THAT(render(few.error()),
              HasSubstr("mask: layer 2 has 1 experts, fewer than the top-k of 2"));
  const ExpertGrid grouped{{1}, 8, 2, 4, 2};
  const auto sets = parse_expert_sets("L1:4,5", grouped, "mask");
  ASSERT_TRUE(sets);
  const auto one_group = check_enough(*sets, grouped, "mask");
  ASSERT_FALSE(one_group);
  EXPECT_THAT(render(one_group.error()), HasSubstr("experts in 1 groups"));
}

TEST(ExpertSets, RejectsSmallKeptGroups) {
  const ExpertGrid grid{{1}, 12, 3, 4, 2};  // a token keeps 2 of 4 groups of 3
  const auto thin = parse_expert_sets("L1:0-2,3,6", grid, "mask");
  ASSERT_TRUE(thin);
  const auto checked = check_enough(*thin, grid, "mask");
  ASSERT_FALSE(checked);
  EXPECT_THAT(render(checked.error()), HasSubstr("2 groups with only 2 experts together"));
  const auto wide = parse_expert_sets("L1:0-2,3,6,7", grid, "mask");
  ASSERT_TRUE(wide);
  EXPECT_TRUE(check_enough(*wide, grid, "mask"));
}

TEST(ExpertSets, CountsKeptSlots) {
  const ExpertSets mask = sets_of("L1:0,2;L2:0-7");
  EXPECT_EQ(kept_slots(mask, {1, 2, 3}, 8, 9),
            (std::vector<std::vector<int64_t>>{{0, 2, 8}, {}, {}}));
  EXPECT_TRUE(kept_slots(mask, {2, 3}, 8, 9).empty());
}

TEST(ExpertSets, IntersectsTwoMasks) {
  EXPECT_EQ(to_string(in_both(sets_of("L1:0-4;L2:1"), sets_of("L1:3-7;L3:2"))), "L1:3-4;L2:1;L3:2");
}

TEST(ExpertSets, SubtractsASecondSet) {
  ExpertGrid grid = kGrid;
  grid.layers = {1, 2, 3};
  grid.experts = 8;
  const ExpertSets first = sets_of("L1:0-4;L2:1"), second = sets_of("L1:3-7;L3:2");
  EXPECT_EQ(to_string(in_first_only(first, second, grid)), "L1:0-2;L3:0-1,3-7");
  EXPECT_EQ(to_string(in_first_only(second, first, grid)), "L1:5-7;L2:0,2-7");
  EXPECT_EQ(in_first_only(first, no_experts(grid), grid).layers.at(3).size(), 8U);
}

TEST(ExpertLayers, ParsesNumbersAndRanges) {
  const auto layers = parse_expert_layers("3,1-2", kGrid, "flag");
  ASSERT_TRUE(layers) << render(layers.error());
  EXPECT_EQ(*layers, (std::vector<int64_t>{1, 2, 3}));
  for (const char* odd : {"0", "1-4", "x", "", "2-1"}) {
    const auto refused = parse_expert_layers(odd, kGrid, "flag");
    ASSERT_FALSE(refused) << odd;
    EXPECT_EQ(refused.error().front().code, "experts.layer") << odd;
  }
}

TEST(ExpertMasks, ReadsTextOrAFile) {
  const auto mask = read_expert_mask("L1:0-3", kGrid, "flag");
  ASSERT_TRUE(mask);
  EXPECT_EQ(to_string(*mask), "L1:0-3");
  const auto missing = read_expert_mask("@/nowhere/mask", kGrid, "flag");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().front().code, "experts.file");
  EXPECT_EQ(read_expert_mask("L1:0", kGrid, "flag").error().front().code, "experts.too_few");
}

TEST(ExpertGroups, ReadsGroupsByName) {
  const auto groups = parse_expert_groups(
      R"({"groups": [{"name": "a", "experts": "*:0-3"}, {"name": "b", "experts": "*:4-7"}]})",
      "g.json", kGrid);
  ASSERT_TRUE(groups) << render(groups.error());
  EXPECT_EQ(groups->at(1).name, "b");
  EXPECT_EQ(to_string(groups->at(1).experts), "L1-3:4-7;L5:4-7");
  EXPECT_TRUE(check_covered(*groups, kGrid, "g.json"));
}

TEST(ExpertGroups, RejectsInvalidFiles) {
  const auto error = [](std::string_view text) {
    const auto groups = parse_expert_groups(text, "g.json", kGrid);
    EXPECT_FALSE(groups) << text;
    return groups ? "" : render(groups.error());
  };
  EXPECT_THAT(error("{"), HasSubstr("[groups.syntax]"));
  EXPECT_THAT(error("{}"), HasSubstr("[groups.missing_field]"));
  EXPECT_THAT(error(R"({"groups": []})"), HasSubstr("[groups.bad_value]"));
  EXPECT_THAT(error(R"({"groups": [{"name": "a", "experts": "*:0", "x": 1}]})"),
              HasSubstr("[groups.unknown_field]"));
  EXPECT_THAT(error(R"({"groups": [{"name": "", "experts": "*:0"}]})"),
              HasSubstr("[groups.bad_value]"));
  EXPECT_THAT(error(R"({"groups": [{"name": "a", "experts": "*:0"},
                                   {"name": "a", "experts": "*:1"}]})"),
              HasSubstr("the name of another group"));
  EXPECT_THAT(error(R"({"groups": [{"name": "a", "experts": "L0:0"}]})"),
              HasSubstr("g.json: group a"));
}

TEST(ExpertGroups, JoinsExpertsOfEqualGroups) {
  const ExpertGrid grid{{1, 2}, 6, 2, 1, 1};
  const auto groups = parse_expert_groups(
      R"({"groups": [{"name": "a", "experts": "L1:0,2,3"}, {"name": "b", "experts": "*:1,3,5"}]})",
      "g.json", grid);
  ASSERT_TRUE(groups) << render(groups.error());
  const ExpertPartition parts = parts_of_groups(*groups, grid);
  using Sets = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(parts.at(1), (Sets{{0, 2}, {1, 5}, {3}, {4}}));
  // Group a contains all experts of layer 2.
  EXPECT_EQ(parts.at(2), (Sets{{0, 2, 4}, {1, 3, 5}}));
  EXPECT_EQ(to_string(parts), "L1: 0 2 | 1 5 | 3 | 4\nL2: 0 2 4 | 1 3 5");
}

TEST(ExpertGroups, RejectsUngroupedExperts) {
  const auto groups = parse_expert_groups(
      R"({"groups": [{"name": "a", "experts": "*:0-3;L2:0-7"}, {"name": "b", "experts": "*:4-6"}]})",
      "g.json", kGrid);
  ASSERT_TRUE(groups) << render(groups.error());
  const auto uncovered = check_covered(*groups, kGrid, "g.json");
  ASSERT_FALSE(uncovered);
  EXPECT_THAT(render(uncovered.error()), HasSubstr("g.json: L1:7 is in no group"));
}

}  // namespace
}  // namespace moec
