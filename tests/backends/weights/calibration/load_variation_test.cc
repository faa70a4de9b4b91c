#include "backends/weights/calibration/load_variation.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

// A layer with these token counts per expert. `down` and the layer's own inputs are ignored by the
// variation.
CalibratedLayer layer_of(int64_t layer, const std::vector<int64_t>& tokens) {
  CalibratedLayer made{layer, "file", {{.name = "attn_norm", .inputs = 4, .tokens = 100}}};
  for (size_t e = 0; e < tokens.size(); ++e) {
    const std::string name = "experts." + std::to_string(e);
    made.inputs.push_back({.name = name, .inputs = 4, .tokens = tokens[e], .pool = "experts"});
    made.inputs.push_back({.name = name + ".down", .inputs = 2, .tokens = tokens[e]});
  }
  made.inputs.push_back({.name = "experts", .inputs = 4, .tokens = 100});
  return made;
}

double variation_of(const std::vector<int64_t>& tokens) {
  CalibrationIndex index;
  index.layers = {layer_of(0, tokens)};
  return expert_loads(index).at(0).variation;
}

TEST(ExpertLoads, ComputeTheVariationOfTokenCounts) {
  EXPECT_EQ(variation_of({7, 7, 7}), 0);
  EXPECT_DOUBLE_EQ(variation_of({1, 3}), 0.25) << "both are 1 from the mean of 2";
  EXPECT_DOUBLE_EQ(variation_of({0, 0, 0, 9}), 3) << "one expert has all tokens";
  EXPECT_DOUBLE_EQ(variation_of({10, 30}), variation_of({1, 3}))
      << "independent of the text's length";
}

TEST(ExpertLoads, ListOnlyLayersWithTokens) {
  CalibrationIndex index;
  index.layers = {layer_of(0, {}), layer_of(1, {1, 3}), layer_of(2, {0, 0}), layer_of(5, {0, 2})};
  const std::vector<LayerLoads> loads = expert_loads(index);
  ASSERT_EQ(loads.size(), 2U);
  EXPECT_EQ(loads[0].layer, 1);
  EXPECT_EQ(loads[1].layer, 5);
  EXPECT_DOUBLE_EQ(loads[1].variation, 1);
}

TEST(ExpertLoads, AverageVariationAsNarrowness) {
  EXPECT_DOUBLE_EQ(narrowness_of({{0, 0.25}, {3, 1}}), 0.625);
  EXPECT_EQ(narrowness_of({}), 0) << "a model without experts";
}

}  // namespace
}  // namespace moec
