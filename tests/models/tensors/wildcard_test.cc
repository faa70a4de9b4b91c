#include <gtest/gtest.h>

#include <string>

#include "models/tensors/ignored_tensors.h"

namespace moec {
namespace {

TEST(Wildcard, MatchesRuns) {
  EXPECT_TRUE(
      matches_wildcard("model.layers.3.self_attn.rotary_emb.inv_freq", "*.rotary_emb.inv_freq"));
  EXPECT_TRUE(matches_wildcard("mtp.head.weight", "mtp.*"));
  EXPECT_TRUE(matches_wildcard("a.b.a.b.c", "*a.b.c"));
  EXPECT_TRUE(matches_wildcard("", "*"));
  EXPECT_TRUE(matches_wildcard("abc", "a*b*c*"));
}

TEST(Wildcard, RejectsNonMatches) {
  EXPECT_FALSE(matches_wildcard("model.norm.weight", "*.rotary_emb.inv_freq"));
  EXPECT_FALSE(matches_wildcard("xmtp.head", "mtp.*"));
  EXPECT_FALSE(matches_wildcard("abc", "ab"));
  EXPECT_FALSE(matches_wildcard("", "a"));
}

TEST(Wildcard, AvoidsExponentialTime) {
  EXPECT_FALSE(matches_wildcard(std::string(2000, 'a'), "*a*a*a*a*a*a*a*a*a*b"));
}

}  // namespace
}  // namespace moec
