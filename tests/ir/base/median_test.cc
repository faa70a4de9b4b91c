#include "ir/base/median.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

TEST(Median, ReturnsTheMiddle) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5) << "the mean of the middle two";
  EXPECT_EQ(median({}), 0);
}

TEST(Median, IgnoresASingleDelay) { EXPECT_EQ(median({1, 200, 1}), 1); }

}  // namespace
}  // namespace moec
