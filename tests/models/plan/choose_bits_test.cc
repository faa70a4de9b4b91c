#include "models/plan/choose_bits.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

BitsItem falling(int64_t elements, double cost) {
  return {elements, {{2, 16 * cost}, {3, 4 * cost}, {4, cost}, {8, 0}}};
}

TEST(ChooseBits, GivesCostlyItemsMoreBits) {
  const std::vector<BitsItem> items = {falling(10, 1), falling(10, 100), falling(10, 1)};
  EXPECT_EQ(choose_bits(items, 2), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(choose_bits(items, 2.4), (std::vector<int64_t>{2, 3, 2}));
  EXPECT_EQ(choose_bits(items, 2.7), (std::vector<int64_t>{2, 4, 2}));
  EXPECT_EQ(choose_bits(items, 4.01), (std::vector<int64_t>{2, 8, 2})) << "100 per 4 bits";
  EXPECT_EQ(choose_bits(items, 8), (std::vector<int64_t>{8, 8, 8}));
}

TEST(ChooseBits, WeightsItemsByTheirElements) {
  const std::vector<BitsItem> items = {falling(30, 2), falling(10, 1)};
  EXPECT_EQ(choose_bits(items, 2.3), (std::vector<int64_t>{2, 3})) << "12 a bit of 10, 24 of 30";
}

TEST(ChooseBits, PrefersTheFirstOfEqualItems) {
  const std::vector<BitsItem> items = {falling(10, 1), falling(10, 1)};
  EXPECT_EQ(choose_bits(items, 2.5), (std::vector<int64_t>{3, 2}));
}

// Widths that are not on the convex hull are skipped: 3 bits save less per bit than 4, and some
// widths save nothing.
TEST(ChooseBits, FollowsTheConvexHull) {
  const std::vector<BitsItem> items = {{10, {{2, 10}, {3, 9}, {4, 2}, {6, 2}}},
                                       {10, {{2, 4}, {3, 1}}}};
  EXPECT_EQ(choose_bits(items, 3), (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(choose_bits(items, 3.5), (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(choose_bits(items, 6), (std::vector<int64_t>{4, 3}));
}

// The best step exceeds the mean; a smaller one fits.
TEST(ChooseBits, StaysBelowTheMean) {
  const std::vector<BitsItem> items = {{100, {{2, 1000}, {3, 0}}}, {10, {{2, 1}, {3, 0}}}};
  EXPECT_EQ(choose_bits(items, 2.5), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(choose_bits({}, 3), (std::vector<int64_t>{}));
}

}  // namespace
}  // namespace moec
