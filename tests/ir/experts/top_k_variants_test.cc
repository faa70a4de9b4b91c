#include "ir/experts/top_k_variants.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Layers 0 and 4 are dense; the checkpoint's top-k is 2.
const ExpertGrid kFormGrid{{1, 2, 3, 5, 6}, 8, 2, 1, 1};

std::vector<TopKVariant> top_k_variants_of(std::string_view text) {
  auto forms = parse_top_k_variants(text, kFormGrid, "--top-k");
  EXPECT_TRUE(forms.has_value()) << render(forms.error());
  return forms.value_or(std::vector<TopKVariant>());
}

std::string top_k_error(std::string_view text, const ExpertGrid& grid = kFormGrid) {
  const auto forms = parse_top_k_variants(text, grid, "--top-k");
  EXPECT_FALSE(forms.has_value()) << text;
  return forms ? "" : render(forms.error());
}

std::vector<std::string> names_of_forms(std::string_view text) {
  std::vector<std::string> names;
  for (const TopKVariant& form : top_k_variants_of(text)) names.push_back(form.name);
  return names;
}

TEST(TopKVariants, ReadsOneNumberForAllLayers) {
  const std::vector<TopKVariant> forms = top_k_variants_of("1, 3");
  ASSERT_EQ(forms.size(), 2u);
  EXPECT_EQ(forms[1].layers, (std::map<int64_t, int64_t>{{1, 3}, {2, 3}, {3, 3}, {5, 3}, {6, 3}}));
  EXPECT_EQ(forms[1].largest(), 3);
  EXPECT_THAT(forms[0].of({2, 6}), ElementsAre(1, 1));
}

TEST(TopKVariants, ReadsNumbersPerLayer) {
  const std::map<int64_t, int64_t> wanted = {{1, 1}, {2, 1}, {3, 2}, {5, 2}, {6, 2}};
  for (const char* text : {"L1-2:1;L3-:2", " L3-6:2 ; L1-2:1", "L1:1;L2:1;*:2", "*:2;L1-2:1"})
    EXPECT_EQ(top_k_variants_of(text).front().layers, wanted) << text;
}

TEST(TopKVariants, PutsTheCheckpointsTopKFirst) {
  EXPECT_THAT(names_of_forms("1,2,4"), ElementsAre("2", "1", "4"));
  EXPECT_THAT(names_of_forms("4,1"), ElementsAre("4", "1"));
  EXPECT_THAT(names_of_forms("1,*:2"), ElementsAre("2", "1"));
}

TEST(TopKVariants, RoundTripsNames) {
  EXPECT_THAT(names_of_forms("L1-2:1;L3:2;*:1"), ElementsAre("L1-2:1;L3:2;L5-6:1"));
  EXPECT_THAT(names_of_forms("L1-3:1;L5-:4"), ElementsAre("L1-3:1;L5-6:4"));
  for (const char* text : {"L1-2:1;L3:2;L5-6:1", "1", "8"})
    EXPECT_THAT(names_of_forms(text), ElementsAre(text));
}

TEST(TopKVariants, RejectsMalformedTexts) {
  for (const char* text : {"", "a", "1;2", "-1", "1,", "L1", "L1:", "L:1", "1:1", "L1-2",
                           "L2-1:1;*:2", "L1:1.5;*:1", "L-2:1;*:1", "1.5"})
    EXPECT_THAT(top_k_error(text), HasSubstr("[top_k.item]")) << text;
}

TEST(TopKVariants, RejectsImpossibleNumbers) {
  EXPECT_THAT(top_k_error("0"), HasSubstr("[top_k.count]"));
  EXPECT_THAT(top_k_error("2,9"), HasSubstr("use numbers from 1 to 8"));
  EXPECT_THAT(top_k_error("L1-3:1;*:0"), HasSubstr("[top_k.count]"));
  EXPECT_THAT(top_k_error("9223372036854775808"), HasSubstr("[top_k.item]"));
  const ExpertGrid grouped{{0}, 8, 2, 4, 2};
  EXPECT_TRUE(parse_top_k_variants("4", grouped, "--top-k"));
  EXPECT_THAT(top_k_error("5", grouped), HasSubstr("[top_k.groups]"));
  EXPECT_THAT(top_k_error("1", {}), HasSubstr("[top_k.no_experts]"));
}

TEST(TopKVariants, RejectsOverlapsGapsAndDenseLayers) {
  EXPECT_THAT(top_k_error("L1-3:1;L3-:2"), HasSubstr("names layer 3 again"));
  EXPECT_THAT(top_k_error("*:1;*:2"), HasSubstr("[top_k.twice]"));
  EXPECT_THAT(top_k_error("L1-3:1"), HasSubstr("omits the layers 5-6"));
  EXPECT_THAT(top_k_error("L1-2:1;L5-:2"), HasSubstr("[top_k.missing]"));
  EXPECT_THAT(top_k_error("L0-3:1;*:2"), HasSubstr("[top_k.layer]"));
  EXPECT_THAT(top_k_error("L1-:1;L7:2"), HasSubstr("names layer 7, which has no experts"));
  EXPECT_THAT(top_k_error("L9-:1;*:2"), HasSubstr("[top_k.layer]"));
  EXPECT_THAT(top_k_error("2,1,*:2"), HasSubstr("[top_k.repeated]"));
}

TEST(TopKVariants, SkipsVariantsWithEqualTopK) {
  const std::vector<TopKVariant> forms = top_k_variants_of("2,1,L1-2:1;*:2");
  EXPECT_THAT(distinct_forms(forms, {1}), ElementsAre(0, 1));
  EXPECT_THAT(distinct_forms(forms, {5}), ElementsAre(0, 1));
  EXPECT_THAT(distinct_forms(forms, {1, 2, 3, 5, 6}), ElementsAre(0, 1, 2));
}

TEST(TopKVariants, AbbreviatesRunsOfLayersInLabels) {
  EXPECT_EQ(top_k_label({2}), "k2");
  EXPECT_EQ(top_k_label({2, 2, 2}), "k2");
  EXPECT_EQ(top_k_label({1, 1, 2, 4}), "k1x2_2_4");
}

}  // namespace
}  // namespace moec
