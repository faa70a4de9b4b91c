#include "frontends/measure/compare_metrics.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace moec {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Logits of these probabilities, shifted by an arbitrary constant.
std::vector<float> logits_of(const std::vector<double>& probabilities, double offset = 3) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p) + offset));
  return logits;
}

TEST(KlDivergence, MatchesHandCalculation) {
  const auto a = logits_of({0.5, 0.25, 0.25}), b = logits_of({0.25, 0.25, 0.5}, -7);
  EXPECT_NEAR(kl_divergence(b, a), 0.25 * std::log(2), 1e-6);
  const auto even = logits_of({0.5, 0.5}), skewed = logits_of({0.9, 0.1});
  EXPECT_NEAR(kl_divergence(skewed, even), 0.5 * std::log(0.25 / 0.09), 1e-6);
  EXPECT_NEAR(kl_divergence(even, skewed), 0.9 * std::log(1.8) + 0.1 * std::log(0.2), 1e-6);
  EXPECT_EQ(kl_divergence(a, a), 0);
  EXPECT_TRUE(std::isnan(kl_divergence(std::vector<float>{kNan, 0}, even)));
}

TEST(WindowMeans, ComputeTheStandardError) {
  const WindowMean three = mean_of_windows(std::vector<double>{1, 2, 6});
  EXPECT_NEAR(three.mean, 3, 1e-12);
  ASSERT_TRUE(three.standard_error);
  EXPECT_NEAR(*three.standard_error, std::sqrt(7.0 / 3), 1e-12);
  EXPECT_FALSE(mean_of_windows(std::vector<double>{5}).standard_error);
  EXPECT_EQ(mean_of_windows({}).mean, 0);
}

TEST(Quantiles, ReturnValuesThatOccur) {
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  EXPECT_EQ(quantile(hundred, 0.99), 99);
  hundred.push_back(1000);
  EXPECT_EQ(quantile(hundred, 0.99), 100);
  EXPECT_EQ(quantile(hundred, 1), 1000);
  EXPECT_EQ(quantile({4, 2}, 0), 2);
  EXPECT_EQ(quantile({7}, 0.99), 7);
  EXPECT_EQ(quantile({}, 0.99), 0);
}

TEST(PredictionComparer, MatchesHandCalculation) {
  PredictionComparer comparer;
  const auto even = logits_of({0.5, 0.5}), skewed = logits_of({0.125, 0.875}),
             other = logits_of({0.75, 0.25});
  comparer.add(skewed, skewed, 0);  // 3 bits in each model
  comparer.add(even, other, 0);     // equal logits predict the first token; 1 and 0.415 bits
  comparer.end_window();
  comparer.add(skewed, other, 1);  // different top-1; 0.193 and 2 bits
  comparer.add(even, even, std::nullopt);
  comparer.end_window();
  const PredictionComparison found = comparer.result();
  EXPECT_EQ(found.tokens, 4u);
  EXPECT_DOUBLE_EQ(found.top1.mean, 0.75);
  EXPECT_NEAR(*found.top1.standard_error, 0.25, 1e-12);
  const double second = 0.5 * std::log(0.25 / 0.1875);
  const double third = 0.125 * std::log(0.125 / 0.75) + 0.875 * std::log(0.875 / 0.25);
  EXPECT_NEAR(found.kl.mean, (second + third) / 4, 1e-6);
  EXPECT_NEAR(found.kl_p99, third, 1e-6);
  ASSERT_TRUE(found.bits);
  EXPECT_EQ(found.bits->tokens, 3u);
  EXPECT_NEAR(found.bits->reference.mean, (2 - std::log2(0.875)) / 2, 1e-6);
  EXPECT_NEAR(found.bits->compared.mean, ((3 - std::log2(0.75)) / 2 + 2) / 2, 1e-6);
  EXPECT_NEAR(found.bits->difference.mean, found.bits->compared.mean - found.bits->reference.mean,
              1e-12);
}

TEST(PredictionComparer, OmitsNonfiniteRows) {
  PredictionComparer comparer;
  const std::vector<float> fine = {1, 2}, broken = {kNan, 2};
  comparer.add(fine, broken, 0);
  comparer.add(fine, fine, std::nullopt);
  comparer.end_window();
  const PredictionComparison found = comparer.result();
  EXPECT_EQ(found.nonfinite, 1u);
  EXPECT_EQ(found.tokens, 1u);
  EXPECT_EQ(found.kl.mean, 0);
  EXPECT_FALSE(found.bits);
}

TEST(ValueComparer, AveragesRowCosines) {
  ValueComparer comparer;
  comparer.add(std::vector<float>{1, 0, 0, 100}, std::vector<float>{0, 1, 0, 100}, 2);
  const ValueComparison found = comparer.result();
  EXPECT_DOUBLE_EQ(found.mean_cosine.value_or(0), 0.5);
  EXPECT_GT(found.all.cosine, 0.999);
  EXPECT_NEAR(found.all.sqnr_db, 10 * std::log10(10001 / 2.0), 1e-9);
}

TEST(RoutingComparer, CountsFlipsAndSelections) {
  RoutingComparer comparer;
  const std::vector<float> first = {0.7F, 0.3F, 0, 0}, flipped = {0.7F, 0, 0.3F, 0},
                           moved = {0.6F, 0.4F, 0, 0};
  comparer.add(first, first);
  comparer.add(flipped, first);
  comparer.add(moved, first);
  const RoutingComparison found = comparer.result();
  EXPECT_EQ(found.tokens, 3u);
  EXPECT_EQ(found.flipped_sets, 1u);
  EXPECT_NEAR(found.moved_weight, 0.4 / 3, 1e-6);
  EXPECT_THAT(found.chosen_by, testing::ElementsAre(3, 3, 0, 0));
  EXPECT_THAT(found.never_routed(), testing::ElementsAre(2, 3));
}

TEST(LogProbability, MatchesTheSoftmax) {
  const std::vector<float> logits = {1, 3, 2};
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(log_probability(logits, 2), 2 - std::log(sum), 1e-12);
  EXPECT_TRUE(all_finite(logits));
  EXPECT_FALSE(all_finite(std::vector<float>{1, -INFINITY}));
}

}  // namespace
}  // namespace moec
