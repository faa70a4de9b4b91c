// Random numbers that depend only on their index.
#include "frontends/checkpoint/counted_normal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace moec {
namespace {

TEST(CountedNormal, HasNormalMoments) {
  constexpr int kCount = 200'000;
  double sum = 0, squares = 0, fourth = 0;
  int beyond = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = counted_normal(7, static_cast<uint64_t>(i));
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
    beyond += std::abs(value) > 1.959964 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  EXPECT_NEAR(fourth / kCount, 3, 0.1);
  EXPECT_NEAR(static_cast<double>(beyond) / kCount, 0.05, 0.003);
}

// The two numbers of one draw, and the numbers of adjacent draws, must be independent.
TEST(CountedNormal, IsUncorrelatedBetweenAdjacentDraws) {
  constexpr int kCount = 100'000;
  for (const uint64_t apart : {1u, 2u}) {
    double product = 0;
    for (uint64_t i = 0; i < kCount; ++i)
      product += counted_normal(3, i) * counted_normal(3, i + apart);
    EXPECT_NEAR(product / kCount, 0, 0.015) << apart;
  }
}

TEST(CountedNormal, SeparatesSeedsAndPurposes) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 10; ++seed)
    for (const char* purpose : {"noise on a", "noise on b", "a", ""})
      seeds.insert(seed_for(seed, purpose));
  EXPECT_EQ(seeds.size(), 40u);
  std::set<double> firsts;
  for (const uint64_t seed : seeds) firsts.insert(counted_normal(seed, 0));
  EXPECT_EQ(firsts.size(), 40u);
}

// The bytes of published checkpoints depend on these numbers.
TEST(CountedNormal, KeepsPublishedValues) {
  EXPECT_NEAR(counted_normal(0, 0), 0.9216670859757585, 1e-12);
  EXPECT_NEAR(counted_normal(1, 12345), 0.0427454912395461, 1e-12);
}

TEST(CountedChoice, SelectsUniformly) {
  constexpr int64_t kUnits = 12, kChosen = 5;
  std::vector<int> times(kUnits);
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    const std::vector<bool> flags = counted_choice(seed, kUnits, kChosen);
    ASSERT_EQ(std::count(flags.begin(), flags.end(), true), kChosen);
    for (size_t i = 0; i < flags.size(); ++i) times[i] += flags[i] ? 1 : 0;
  }
  for (const int count : times) EXPECT_NEAR(count, 2500, 160);
}

TEST(CountedChoice, SelectsNoneAndAll) {
  const std::vector<bool> none = counted_choice(1, 4, 0), all = counted_choice(1, 4, 4);
  EXPECT_EQ(std::count(none.begin(), none.end(), true), 0);
  EXPECT_EQ(std::count(all.begin(), all.end(), true), 4);
}

}  // namespace
}  // namespace moec
