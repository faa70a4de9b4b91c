#include "backends/formats/genai/extent.h"

#include <gtest/gtest.h>

#include <vector>

#include "backends/formats/genai/decoder_part.h"

namespace moec {
namespace {

std::vector<int64_t> values_of(const Extent& extent) {
  std::vector<int64_t> values;
  for (const GraphPoint& point : kSamplePoints) values.push_back(extent.at(point));
  return values;
}

TEST(Extent, FitsValuesAtSamplePoints) {
  for (const Extent& extent : {Extent{7}, Extent{0, 1, 0}, Extent{0, 0, 1}, Extent{0, 1, 1},
                               Extent{-3, 4, 0}, Extent{5, 2, -1}})
    EXPECT_EQ(fit_extent(kSamplePoints, values_of(extent)), extent) << to_string(extent);
}

TEST(Extent, RejectsProducts) {
  std::vector<int64_t> products;
  for (const auto& [tokens, past] : kSamplePoints) products.push_back(tokens * past);
  EXPECT_EQ(fit_extent(kSamplePoints, products), std::nullopt);
}

// 37 / 4 rounds down, so no integer slope exists.
TEST(Extent, RejectsRoundedShares) {
  std::vector<int64_t> shares;
  for (const GraphPoint& point : kSamplePoints) shares.push_back(point.tokens / 3);
  EXPECT_EQ(fit_extent(kSamplePoints, shares), std::nullopt);
}

TEST(Extent, IsConstantAtOnePoint) {
  const GraphPoint one{1, 101};
  EXPECT_EQ(fit_extent({&one, 1}, std::vector<int64_t>{9}), Extent{9});
}

TEST(Extent, NamesSizes) {
  EXPECT_EQ(to_string(Extent{8}), "8");
  EXPECT_EQ(to_string(Extent{0, 1, 1}), "total");
  EXPECT_EQ(to_string(Extent{0, 4, 0}), "4*tokens");
  EXPECT_EQ(to_string(Extent{-1, 2, 1}), "2*tokens+past-1");
}

}  // namespace
}  // namespace moec
