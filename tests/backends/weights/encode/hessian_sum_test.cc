#include "backends/weights/encode/hessian_sum.h"

#include <gtest/gtest.h>

#include "tests/backends/weights/encode/calibration_testing.h"

namespace moec {
namespace {

TEST(HessianSum, IsTheSumOfTheProductsOfInputs) {
  constexpr int64_t kInputs = 5, kTokens = 600;
  const std::vector<float> rows = seeded_normals(21, kInputs * kTokens);
  HessianSum sum(kInputs);
  sum.add(rows);
  const Hessian hessian = sum.finish();
  ASSERT_TRUE(check_hessian(hessian, kInputs));
  EXPECT_EQ(hessian.tokens, kTokens);
  for (size_t i = 0; i < kInputs; ++i)
    for (size_t j = 0; j < kInputs; ++j) {
      double expected = 0;
      for (size_t t = 0; t < kTokens; ++t)
        expected += double(rows[t * kInputs + i]) * double(rows[t * kInputs + j]);
      EXPECT_NEAR(hessian.sums[i * kInputs + j], expected, 1e-3);
      EXPECT_EQ(hessian.sums[i * kInputs + j], hessian.sums[j * kInputs + i]);
    }
}

TEST(HessianSum, DoesNotDependOnHowTheRowsAreDivided) {
  const std::vector<float> rows = seeded_normals(22, 7 * 700);
  HessianSum whole(7), parts(7);
  whole.add(rows);
  for (size_t at = 0; at < rows.size(); at += 7 * 35)
    parts.add(std::span(rows).subspan(at, 7 * 35));
  EXPECT_EQ(whole.finish().sums, parts.finish().sums);
}

TEST(HessianSum, OfNoRowsIsZero) {
  HessianSum sum(3);
  sum.add({});
  EXPECT_EQ(sum.finish().sums, empty_hessian(3).sums);
}

}  // namespace
}  // namespace moec
