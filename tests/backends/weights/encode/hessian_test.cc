#include "backends/weights/encode/hessian.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/backends/weights/encode/calibration_testing.h"

namespace moec {
namespace {

TEST(Hessian, ShrinksWhatInputsHaveInCommonAndKeepsTheirOwnMoments) {
  const Hessian hessian{2, 8, {16, 4, 4, 32}};
  const float a = 8.0F / (8 + 2 * 2);
  EXPECT_EQ(shrunk(hessian), (std::vector<float>{2, a * 0.5F, a * 0.5F, 4}));
}

TEST(Hessian, OfNoTokensIsZero) {
  EXPECT_EQ(shrunk(empty_hessian(3)), std::vector<float>(9, 0));
  EXPECT_TRUE(check_hessian(empty_hessian(3), 3));
}

TEST(Hessian, OfAnExpertTakesTheLayersAsFourTimesItsInputs) {
  EXPECT_EQ(borrowed_tokens(2, 16), 4 * 2);
  EXPECT_EQ(borrowed_tokens(2, 3), 3) << "as many as there are";
  EXPECT_EQ(borrowed_tokens(2, 0), 0);
}

TEST(Hessian, RefusesOtherSizesAndNumbersThatNoInputsGive) {
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
