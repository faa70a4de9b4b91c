#include "backends/weights/encode/hessian_sum.h"

#include <gtest/gtest.h>

#include "tests/backends/weights/encode/calibration_testing.h"

namespace moec {
namespace {

TEST(HessianSum, SumsProductsOfInputs) {
  constexpr int64_t kInputs = 5, kTokens = 600;
  const std::vector<float> rows = seeded_normals(21, kInputs * kTokens);
  HessianSum sum(kInputs);
  sum.add(rows);
  const Hessian hessian = sum.finish().front();
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

TEST(HessianSum, IsIndependentOfRowBatches) {
  const std::vector<float> rows = seeded_normals(22, 7 * 700);
  HessianSum whole(7), parts(7);
  whole.add(rows);
  for (size_t at = 0; at < rows.size(); at += 7 * 35)
    parts.add(std::span(rows).subspan(at, 7 * 35));
  EXPECT_EQ(whole.finish().front().sums, parts.finish().front().sums);
}

TEST(HessianSum, IsZeroWithoutRows) {
  HessianSum sum(3);
  sum.add({});
  EXPECT_EQ(sum.finish().front().sums, empty_hessian(3).sums);
}

TEST(HessianSum, EqualsDiagonalBlocksOfTheWhole) {
  const std::vector<float> rows = seeded_normals(23, 7 * 300);
  HessianSum whole(7), blocks(7, 3);
  whole.add(rows);
  blocks.add(rows);
  const Hessian all = whole.finish().front();
  const std::vector<Hessian> parts = blocks.finish();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].inputs, 1);
  for (size_t b = 0; b < 3; ++b) {
    const auto size = static_cast<size_t>(parts[b].inputs);
    EXPECT_EQ(parts[b].tokens, 300);
    for (size_t i = 0; i < size; ++i)
      for (size_t j = 0; j < size; ++j)
        EXPECT_NEAR(parts[b].sums[i * size + j], all.sums[(3 * b + i) * 7 + 3 * b + j], 1e-3);
  }
}

TEST(HessianSum, GroupsInputsWithinTheLimit) {
  EXPECT_EQ(summed_together(128, 128 * 128 * 4), 128);
  EXPECT_EQ(summed_together(128, 128 * 128 * 4 - 1), 64);
  EXPECT_EQ(summed_together(1000, 0), 67) << "at least 64";
  EXPECT_EQ(summed_together(8192, uint64_t{256} << 20), 8192);
  EXPECT_EQ(summed_together(14336, uint64_t{256} << 20), 3584);
}

}  // namespace
}  // namespace moec
