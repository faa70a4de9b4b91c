#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "frontends/measure/metrics.h"

namespace moec {
namespace {

double kl_of(const std::vector<float>& reference, const std::vector<float>& other) {
  double a = 0, b = 0, kl = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    a += std::exp(double{reference[i]});
    b += std::exp(double{other[i]});
  }
  for (size_t i = 0; i < reference.size(); ++i) {
    const double p = std::exp(double{reference[i]}) / a, q = std::exp(double{other[i]}) / b;
    kl += p * std::log(p / q);
  }
  return kl;
}

TEST(LogitDivergence, AccumulatesOverSlices) {
  const std::vector<float> a = {0.5F, -2, 3, 1, 0, 4.5F, -1}, b = {0, -1, 3.5F, 2, -3, 4, 0};
  const std::span<const float> x(a), y(b);
  LogitDivergence whole, sliced;
  whole.add(x, y);
  sliced.add(x.first(2), y.first(2));
  sliced.add({}, {});
  sliced.add(x.subspan(2, 1), y.subspan(2, 1));
  sliced.add(x.subspan(3), y.subspan(3));
  EXPECT_NEAR(whole.kl(), kl_of(a, b), 1e-12);
  EXPECT_NEAR(sliced.kl(), kl_of(a, b), 1e-12);
}

TEST(LogitDivergence, IsNanForNonfiniteLogits) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinite = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& broken :
       {std::vector<float>{nan, 1}, std::vector<float>{1, nan}, std::vector<float>{1, infinite}}) {
    LogitDivergence divergence;
    divergence.add(std::vector<float>{1, 2}, broken);
    EXPECT_TRUE(std::isnan(divergence.kl()));
  }
}

TEST(LogitDivergence, AcceptsLargeAndEqualLogits) {
  const std::vector<float> a = {9000, 9001, -9000}, b = {-500, -499, -20000};
  LogitDivergence shifted, same, none;
  shifted.add(a, b);
  EXPECT_NEAR(shifted.kl(), 0, 1e-9) << "a constant offset does not change a distribution";
  same.add(a, a);
  EXPECT_NEAR(same.kl(), 0, 1e-9);
  EXPECT_EQ(none.kl(), 0);
}

}  // namespace
}  // namespace moec
