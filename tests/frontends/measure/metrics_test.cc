#include "frontends/measure/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace moec {
namespace {

TEST(Comparer, FindsNoErrorInEqualTensors) {
  Comparer comparer;
  std::vector<float> x = {1, -2, 3};
  comparer.add(x, x);
  Comparison c = comparer.result();
  EXPECT_DOUBLE_EQ(c.cosine, 1);
  EXPECT_EQ(c.relative_l2, 0);
  EXPECT_TRUE(std::isinf(c.sqnr_db));
  EXPECT_EQ(c.nonfinite, 0u);
}

TEST(Comparer, AccumulatesErrorsOverRows) {
  Comparer comparer;
  comparer.add(std::vector<float>{3, 4}, std::vector<float>{3, 4});
  comparer.add(std::vector<float>{1, 0}, std::vector<float>{0, 0});
  Comparison c = comparer.result();
  EXPECT_EQ(c.elements, 4u);
  EXPECT_NEAR(c.cosine, 25 / (std::sqrt(26.0) * 5), 1e-15);
  EXPECT_NEAR(c.relative_l2, 1.0 / 5, 1e-15);
  EXPECT_NEAR(c.sqnr_db, 20 * std::log10(5.0), 1e-9);
  EXPECT_EQ(c.max_index, 2u);
  EXPECT_NEAR(c.headroom, 4 / 65504.0, 1e-12);
}

TEST(Comparer, FindsTheWorstRow) {
  Comparer comparer;
  const std::vector<float> x = {3, 4, 0, 1.5F, 1, 1}, y = {3, 4, 0, 1, 0, 0};
  comparer.add_rows(x, y, 2);
  EXPECT_NEAR(comparer.result().worst_row, 0.5, 1e-15);
  comparer.add(std::vector<float>{30}, std::vector<float>{10});
  EXPECT_NEAR(comparer.result().worst_row, 2, 1e-15);
}

TEST(Comparer, DetectsScaleErrorsInRelativeL2) {
  Comparer comparer;
  comparer.add(std::vector<float>{2, 4}, std::vector<float>{1, 2});
  EXPECT_NEAR(comparer.result().cosine, 1, 1e-12);
  EXPECT_NEAR(comparer.result().relative_l2, 1, 1e-12);
}

TEST(Comparer, ReturnsZeroCosineForZeros) {
  Comparer comparer;
  comparer.add(std::vector<float>{0, 0}, std::vector<float>{1, 2});
  EXPECT_EQ(comparer.result().cosine, 0);
}

TEST(Comparer, CountsNonfiniteValues) {
  Comparer comparer;
  const float inf = std::numeric_limits<float>::infinity();
  comparer.add(std::vector<float>{inf, std::nanf(""), 1}, std::vector<float>{1, 1, 1});
  EXPECT_EQ(comparer.result().nonfinite, 2u);
}

// A router of two experts and a null slot, which is selected.
TEST(RouterComparer, CountsNullSlotsAsSelected) {
  RouterComparer comparer;
  const std::vector<float> none = {0, 0}, choice = {0.3f, 0.2f, 0.5f};
  comparer.add(none, none, std::vector<int32_t>{2}, choice, 0);
  comparer.add(std::vector<float>{0.3f, 0}, none, std::vector<int32_t>{2}, choice, 0);
  const RouterComparison result = comparer.result();
  EXPECT_EQ(result.same_set, 1u);
  EXPECT_NEAR(result.min_margin, 0.2, 1e-6);
}

TEST(RouterComparer, ReportsFlippedExpertsAndTheirWeights) {
  RouterComparer comparer;
  const std::vector<float> golden_logits = {2, 1, 0.9f};
  comparer.add(std::vector<float>{0.7f, 0.3f, 0}, std::vector<float>{0.7f, 0.3f, 0},
               std::vector<int32_t>{0, 1}, golden_logits, 0.01);
  comparer.add(std::vector<float>{0.7f, 0, 0.3f}, std::vector<float>{0.7f, 0.3f, 0},
               std::vector<int32_t>{0, 1}, golden_logits, 0.06);
  RouterComparison r = comparer.result();
  EXPECT_EQ(r.tokens, 2u);
  EXPECT_EQ(r.same_set, 1u);
  EXPECT_NEAR(r.moved_weight, 0.15, 1e-6);
  EXPECT_NEAR(r.min_margin, 0.1, 1e-6);
  EXPECT_EQ(r.close_tokens, 1u);
}

TEST(RouterComparer, CountsExtraExpertsAsDifferentSets) {
  RouterComparer comparer;
  comparer.add(std::vector<float>{0.5f, 0.3f, 0.2f}, std::vector<float>{0.6f, 0.4f, 0},
               std::vector<int32_t>{0, 1}, std::vector<float>{2, 1, 0}, 0);
  EXPECT_EQ(comparer.result().same_set, 0u);
}

TEST(LogitComparer, ComputesKlAndTop1) {
  LogitComparer comparer;
  comparer.add(std::vector<float>{0, 0}, std::vector<float>{0, std::log(3.0f)});
  LogitComparison l = comparer.result();
  EXPECT_NEAR(l.mean_kl, 0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-7);
  EXPECT_EQ(l.same_top1, 0u);  // the lowest index wins the tie in the computed logits
}

}  // namespace
}  // namespace moec
