#include "backends/weights/encode/hessian.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/backends/weights/encode/calibration_testing.h"

namespace moec {
namespace {

// 8 tokens: second moments of 2 and 4 per token, and a product of 0.5.
TEST(Hessian, ShrinksCorrelationsThenVariances) {
  const double a = 8.0 / (8 + 2 * 2), b = 8.0 / (8 + 8 * 2), mean = 3;
  const auto own = [&](double moment) {
    return a * moment + (1 - a) * (b * moment + (1 - b) * mean);
  };
  const std::vector<float> moments = shrunk({2, 8, {16, 4, 4, 32}});
  ASSERT_EQ(moments.size(), 4U);
  EXPECT_NEAR(moments[0], own(2), 1e-6);
  EXPECT_NEAR(moments[1], a * 0.5, 1e-6);
  EXPECT_NEAR(moments[2], a * 0.5, 1e-6);
  EXPECT_NEAR(moments[3], own(4), 1e-6);
}

TEST(Hessian, ShrinksMoreForNarrowTexts) {
  const double doubt = 2.0 / 8 + 4 * 0.5 * 0.5;
  const double a = 1 / (1 + 2 * doubt), b = 1 / (1 + 8 * doubt), mean = 3;
  const std::vector<float> moments = shrunk({2, 8, {16, 4, 4, 32}, 0.5});
  EXPECT_NEAR(moments[0], a * 2 + (1 - a) * (b * 2 + (1 - b) * mean), 1e-6);
  EXPECT_NEAR(moments[1], a * 0.5, 1e-6);
}

TEST(Hessian, ShrinksNarrowTextsAtAnyLength) {
  const std::vector<float> moments = shrunk({2, 1000000, {2e6F, 5e5F, 5e5F, 4e6F}, 0.5});
  EXPECT_NEAR(moments[1], 0.5 * most_believed(0.5), 1e-5);
  EXPECT_DOUBLE_EQ(most_believed(0.5), 1.0 / 3);
  EXPECT_EQ(most_believed(0), 1);
}

TEST(Hessian, IgnoresTextsOfMaximumNarrowness) {
  EXPECT_EQ(shrunk({2, 8, {16, 4, 4, 32}, 1}), (std::vector<float>{3, 0, 0, 3}));
  EXPECT_EQ(most_believed(1), 0);
}

TEST(Hessian, ReturnsTheMeanForManyTokens) {
  const std::vector<float> moments = shrunk({2, 1000000, {2e6F, 5e5F, 5e5F, 4e6F}});
  EXPECT_NEAR(moments[0], 2, 1e-4);
  EXPECT_NEAR(moments[1], 0.5, 1e-4);
  EXPECT_NEAR(moments[3], 4, 1e-4);
}

TEST(Hessian, IsZeroWithoutTokens) {
  EXPECT_EQ(shrunk(empty_hessian(3)), std::vector<float>(9, 0));
  EXPECT_TRUE(check_hessian(empty_hessian(3), 3));
}

TEST(Hessian, BorrowsFourTokensPerInput) {
  EXPECT_EQ(borrowed_tokens(2, 16), 4 * 2);
  EXPECT_EQ(borrowed_tokens(2, 3), 3) << "all available tokens";
  EXPECT_EQ(borrowed_tokens(2, 0), 0);
}

TEST(Hessian, RejectsWrongSizesAndNonfiniteNumbers) {
  const auto code = [](const Hessian& hessian) {
    return check_hessian(hessian, 2).error().front().code;
  };
  EXPECT_EQ(code({3, 1, std::vector<float>(9, 0)}), "calibrate.hessian_size");
  EXPECT_EQ(code({2, 1, {1, 2}}), "calibrate.hessian_size");
  EXPECT_EQ(code({2, 1, {1, std::numeric_limits<float>::quiet_NaN(), 0, 1}}),
            "calibrate.nonfinite");
  EXPECT_EQ(code({2, 1, {std::numeric_limits<float>::infinity(), 0, 0, 1}}), "calibrate.nonfinite");
  EXPECT_EQ(code({2, 1, {-1, 0, 0, 1}}), "calibrate.nonfinite");
  EXPECT_EQ(code({2, -1, {1, 0, 0, 1}}), "calibrate.nonfinite");
}

}  // namespace
}  // namespace moec
