#include "backends/runtime/text/logprobs.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace moec {
namespace {

TEST(Logprobs, MatchTheSoftmax) {
  const std::array logits = {std::log(1.0f), std::log(5.0f), std::log(2.0f), std::log(2.0f)};
  const TokenLogprobs found = logprobs_of(logits, 0, 3);
  EXPECT_EQ(found.chosen.token, 0);
  EXPECT_NEAR(found.chosen.logprob, std::log(0.1), 1e-7);
  ASSERT_EQ(found.top.size(), 3u);
  for (const auto& [i, token, share] :
       {std::tuple(0, 1, 0.5), std::tuple(1, 2, 0.2), std::tuple(2, 3, 0.2)}) {
    EXPECT_EQ(found.top[static_cast<size_t>(i)].token, token);
    EXPECT_NEAR(found.top[static_cast<size_t>(i)].logprob, std::log(share), 1e-7);
  }
}

TEST(Logprobs, HandleExtremeLogits) {
  const float most = std::numeric_limits<float>::max();
  const TokenLogprobs found = logprobs_of(std::array{most, most, -most}, 0, 5);
  EXPECT_NEAR(found.chosen.logprob, -std::log(2.0), 1e-6);
  EXPECT_EQ(found.top.size(), 3u);
  EXPECT_TRUE(logprobs_of(std::array{0.0f, 1.0f}, 1, 0).top.empty());
}

}  // namespace
}  // namespace moec
