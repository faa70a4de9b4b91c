#include "ir/base/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace moec {
namespace {

TEST(Bootstrap, WeightsTheMeanByCounts) {
  const std::vector<PartialSum> documents = {{6, 3}, {8, 1}};
  EXPECT_EQ(bootstrap_mean(documents).mean, 3.5);
  EXPECT_EQ(bootstrap_mean({}).mean, 0);
}

TEST(Bootstrap, ReturnsNoBoundsForOneDocument) {
  const std::vector<PartialSum> one = {{6, 3}};
  EXPECT_EQ(bootstrap_mean(one), (BootstrapMean{2, std::nullopt}));
}

TEST(Bootstrap, ReturnsEqualBoundsForEqualDocuments) {
  const std::vector<PartialSum> documents(5, {0, 7});
  EXPECT_EQ(bootstrap_mean(documents), (BootstrapMean{0, {{0, 0}}}));
}

TEST(Bootstrap, MatchesTheStandardErrorBounds) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal(10, 2);
  std::vector<PartialSum> documents;
  for (int i = 0; i < 400; ++i) documents.push_back({normal(random), 1});
  const BootstrapMean found = bootstrap_mean(documents);
  ASSERT_TRUE(found.bounds.has_value());
  const double wanted = 1.96 * 2 / std::sqrt(400.0);
  EXPECT_NEAR(found.bounds->high - found.mean, wanted, 0.03);
  EXPECT_NEAR(found.mean - found.bounds->low, wanted, 0.03);
  EXPECT_EQ(bootstrap_mean(documents), found);
  EXPECT_NE(bootstrap_mean(documents, 2).bounds, found.bounds);
}

}  // namespace
}  // namespace moec
