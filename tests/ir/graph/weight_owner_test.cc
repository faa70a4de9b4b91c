#include "ir/graph/weight_owner.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

TEST(WeightOwners, RoundTripsText) {
  const WeightOwners owners = {
      {"model.norm.weight", {}},
      {"a name with spaces", {WeightRole::routing, 3, 0, 8, 0}},
      {"experts.5.up.weight", {WeightRole::expert, 3, 5, 1, 0}},
      {"experts.down.weight", {WeightRole::expert, 12, 4, 4, 1}},
  };
  EXPECT_EQ(to_text(owners),
            "routing 3 0 8 0 a name with spaces\n"
            "expert 3 5 1 0 experts.5.up.weight\n"
            "expert 12 4 4 1 experts.down.weight\n"
            "plain model.norm.weight\n");
  EXPECT_EQ(parse_weight_owners(to_text(owners)), owners);
  EXPECT_EQ(parse_weight_owners(""), WeightOwners());
}

TEST(WeightOwners, RejectsMalformedTexts) {
  for (const char* text :
       {"plain", "plain \n", "plain a", "plain a\nplain a\n", "shared a\n", "expert 0 1 a\n",
        "expert 0 1 1 0 \n", "expert -1 1 1 0 a\n", "expert 0 1 0 0 a\n", "expert 0 1x 1 0 a\n",
        "expert 0 99999999999999999999 1 0 a\n", "\n"})
    EXPECT_FALSE(parse_weight_owners(text)) << text;
}

TEST(WeightOwners, DescribesLayerAndExperts) {
  EXPECT_EQ(describe({}), "no expert");
  EXPECT_EQ(describe({WeightRole::routing, 2, 0, 8, 0}), "the router of layer 2");
  EXPECT_EQ(describe({WeightRole::expert, 2, 7, 1, 0}), "expert 7 of layer 2");
  EXPECT_EQ(describe({WeightRole::expert, 2, 4, 4, 1}), "experts 4 to 7 of layer 2, along axis 1");
}

}  // namespace
}  // namespace moec
