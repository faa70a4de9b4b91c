#include "backends/runtime/text/sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace moec {
namespace {

TEST(Sampler, GreedyTakesTheLowestIdOfEqualLogits) {
  Sampler sampler({});
  EXPECT_EQ(sampler.next(std::array{1.0f, 5.0f, 5.0f}), 1);
}

TEST(Sampler, TheSameSeedGivesTheSameTokens) {
  const std::array logits = {0.0f, 0.5f, 1.0f, 1.5f};
  Sampler a({.temperature = 1, .seed = 7}), b({.temperature = 1, .seed = 7});
  for (int i = 0; i < 50; ++i) EXPECT_EQ(a.next(logits), b.next(logits));
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  const std::array logits = {0.0f, std::log(3.0f)};
  Sampler sampler({.temperature = 1, .seed = 1});
  int ones = 0;
  for (int i = 0; i < 4000; ++i) ones += sampler.next(logits) == 1;
  EXPECT_NEAR(ones / 4000.0, 0.75, 0.03);
}

TEST(Sampler, TopKNeverSamplesOtherTokens) {
  const std::array logits = {1.0f, 1.0f, 0.9f, 0.0f};
  Sampler sampler({.temperature = 5, .top_k = 2, .seed = 3});
  for (int i = 0; i < 200; ++i) EXPECT_LT(sampler.next(logits), 2);
}

}  // namespace
}  // namespace moec
