#include "backends/runtime/text/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace moec {
namespace {

TEST(Sampler, BreaksTiesByLowestId) {
  Sampler sampler({});
  EXPECT_EQ(sampler.next(std::array{1.0f, 5.0f, 5.0f}), 1);
}

TEST(Sampler, RepeatsTokensForEqualSeeds) {
  const std::array logits = {0.0f, 0.5f, 1.0f, 1.5f};
  Sampler a({.temperature = 1, .seed = 7}), b({.temperature = 1, .seed = 7});
  for (int i = 0; i < 50; ++i) EXPECT_EQ(a.next(logits), b.next(logits));
}

TEST(Sampler, DrawsFromTheSoftmax) {
  const std::array logits = {0.0f, std::log(3.0f)};
  Sampler sampler({.temperature = 1, .seed = 1});
  int ones = 0;
  for (int i = 0; i < 4000; ++i) ones += sampler.next(logits) == 1;
  EXPECT_NEAR(ones / 4000.0, 0.75, 0.03);
}

TEST(Sampler, SamplesOnlyTheTopK) {
  const std::array logits = {1.0f, 1.0f, 0.9f, 0.0f};
  Sampler sampler({.temperature = 5, .top_k = 2, .seed = 3});
  for (int i = 0; i < 200; ++i) EXPECT_LT(sampler.next(logits), 2);
}

// Probabilities 0.5, 0.25, 0.125, 0.125: the first two sum to 0.75.
TEST(Sampler, KeepsTheTopPNucleus) {
  const std::array logits = {std::log(4.0f), std::log(2.0f), 0.0f, 0.0f};
  const auto most = [&](double top_p) {
    Sampler sampler({.temperature = 1, .top_p = top_p, .seed = 3});
    int64_t greatest = 0;
    for (int i = 0; i < 300; ++i) greatest = std::max(greatest, sampler.next(logits));
    return greatest;
  };
  EXPECT_EQ(most(0), 0) << "the most likely token is always kept";
  EXPECT_EQ(most(0.4), 0);
  EXPECT_EQ(most(0.74), 1);
  EXPECT_EQ(most(0.8), 2);
  EXPECT_EQ(most(1), 3);
}

// A vocabulary that is sorted in parts. The logits are nearly equal, so draws reach all parts, and
// the least likely token has the logit -inf.
TEST(Sampler, RanksVocabulariesInParts) {
  constexpr int64_t kVocabulary = 5000;
  std::vector<float> logits;
  for (int64_t i = 0; i < kVocabulary; ++i)
    logits.push_back(static_cast<float>(i * 7919 % kVocabulary) * 1e-4f);
  logits[123] = -std::numeric_limits<float>::infinity();
  Sampler all({.temperature = 1, .seed = 5});
  // Keeps all tokens that can be drawn, but adds their weights in descending order.
  Sampler likeliest({.temperature = 1, .top_k = kVocabulary - 1, .seed = 5});
  std::set<int64_t> drawn;
  for (int i = 0; i < 500; ++i) {
    const int64_t token = all.next(logits);
    EXPECT_EQ(token, likeliest.next(logits));
    drawn.insert(token);
  }
  EXPECT_GT(drawn.size(), 400u);
  EXPECT_FALSE(drawn.contains(123));
}

TEST(Sampler, OrdersUndefinedLogitsLast) {
  std::vector<float> logits(1000, std::numeric_limits<float>::quiet_NaN());
  logits[500] = 1;
  EXPECT_EQ(Sampler({.temperature = 1, .top_k = 1}).next(logits), 500);
}

}  // namespace
}  // namespace moec
