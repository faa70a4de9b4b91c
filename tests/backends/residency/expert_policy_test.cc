#include "backends/residency/expert_policy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace moec {
namespace {

// Uses one expert of layer 0 as a separate step of a cache with `slots` slots. Returns the evicted
// expert.
std::optional<int64_t> use_one(ExpertPolicy& policy, int64_t step, int64_t expert, int64_t slots) {
  const ExpertId key{0, expert};
  policy.begin_step(step);
  policy.protect(key);
  if (policy.resident(key)) {
    policy.hit(key);
    return std::nullopt;
  }
  std::optional<ExpertId> left;
  if (policy.size() >= slots) left = policy.evict();
  policy.insert(key);
  return left ? std::optional(left->expert) : std::nullopt;
}

// Returns the expert that the last of `uses` evicts; each use is one step.
int64_t leaves_at_the_end(ExpertPolicy& policy, const std::vector<int64_t>& uses, int64_t slots) {
  std::optional<int64_t> left;
  for (size_t i = 0; i < uses.size(); ++i)
    left = use_one(policy, static_cast<int64_t>(i), uses[i], slots);
  return left.value_or(-1);
}

TEST(ExpertPolicy, LruEvictsTheOldestUse) {
  EXPECT_EQ(leaves_at_the_end(*make_policy(PolicyKind::lru), {1, 2, 3, 1, 4}, 3), 2);
  EXPECT_EQ(leaves_at_the_end(*make_policy(PolicyKind::lru), {1, 2, 3, 4}, 3), 1);
}

TEST(ExpertPolicy, LfuEvictsFewestThenOldestUses) {
  EXPECT_EQ(leaves_at_the_end(*make_policy(PolicyKind::lfu), {1, 1, 2, 3, 3, 4}, 3), 2);
  EXPECT_EQ(leaves_at_the_end(*make_policy(PolicyKind::lfu), {2, 3, 1, 2, 1, 3, 4}, 3), 2);
}

TEST(ExpertPolicy, ForgetsCountsOfEvictedExperts) {
  auto policy = make_policy(PolicyKind::lfu);
  // Expert 1 is used three times and evicted; when it is loaded again, its count restarts at one.
  EXPECT_EQ(leaves_at_the_end(*policy, {1, 1, 1, 2, 2, 2, 2, 3}, 2), 1);
  EXPECT_EQ(use_one(*policy, 9, 1, 2), 3);
  ASSERT_EQ(policy->experts().size(), 2u);
  EXPECT_EQ(policy->experts()[0], (ResidentExpert{{0, 1}, 1, 9, 9}));
}

// Expert 1 has count 3 and last step 2; expert 2 has count 1 and a later step. 3 · 0.25^(101/128)
// is 1.005, above the newer expert's 1; 3 · 0.25^(102/128) is 0.994.
TEST(ExpertPolicy, LcpWeighsCountsAgainstAge) {
  for (const auto& [later, left] : {std::pair<int64_t, int64_t>{101, 2}, {102, 1}}) {
    auto policy = make_policy(PolicyKind::lcp);
    for (int64_t step = 0; step < 3; ++step) use_one(*policy, step, 1, 2);
    use_one(*policy, 2 + later, 2, 2);
    EXPECT_EQ(use_one(*policy, 200, 3, 2), left) << later;
  }
}

// Evaluates the published formula at each eviction of random traces. Values that differ only by
// rounding are ties.
TEST(ExpertPolicy, LcpMatchesItsFormula) {
  std::mt19937_64 random(7);
  auto policy = make_policy(PolicyKind::lcp);
  for (int64_t step = 0, evictions = 0; evictions < 2000;
       step += static_cast<int64_t>(random() % 9)) {
    const auto before = policy->experts();
    const auto left = use_one(*policy, step, static_cast<int64_t>(random() % 24), 8);
    if (!left) continue;
    ++evictions;
    std::map<int64_t, double> value;
    for (const auto& [key, count, last, use] : before)
      value[key.expert] =
          static_cast<double>(count) * std::pow(0.25, static_cast<double>(step - last) / 128);
    for (const auto& [expert, other] : value) ASSERT_LE(value[*left], other * (1 + 1e-12)) << step;
  }
}

TEST(ExpertPolicy, LcpAvoidsUnderflowForOldExperts) {
  auto policy = make_policy(PolicyKind::lcp);
  for (int64_t step = 0; step < 5; ++step) use_one(*policy, step, 1, 2);
  use_one(*policy, 5, 2, 2);
  // 0.25^(1e6/128) underflows to 0 in double, but 5 uses one step earlier still outweigh one use.
  EXPECT_EQ(use_one(*policy, 1'000'000, 3, 2), 2);
}

TEST(ExpertPolicy, NeverEvictsPinnedExperts) {
  const std::vector<ExpertId> pinned{{0, 1}, {0, 9}};
  auto policy = make_policy(PolicyKind::pinned, pinned);
  EXPECT_EQ(leaves_at_the_end(*policy, {1, 2, 3, 4}, 3), 2);
  EXPECT_EQ(use_one(*policy, 10, 5, 3), 3);
  EXPECT_TRUE(policy->resident({0, 1}));
}

TEST(ExpertPolicy, ProtectsExpertsOfTheCurrentStep) {
  auto policy = make_policy(PolicyKind::lru);
  policy->begin_step(0);
  policy->insert({0, 1});
  policy->insert({0, 2});
  EXPECT_EQ(policy->evict(), std::nullopt);
  policy->begin_step(1);
  policy->protect({0, 1});  // the older one
  EXPECT_EQ(policy->evict(), (ExpertId{0, 2}));
  EXPECT_EQ(policy->evict(), std::nullopt);
}

TEST(ExpertPolicy, SharesAPoolBetweenLayers) {
  auto policy = make_policy(PolicyKind::lru);
  policy->begin_step(0);
  policy->insert({0, 1});
  policy->begin_step(0);
  policy->insert({1, 1});
  policy->begin_step(1);
  EXPECT_EQ(policy->evict(), (ExpertId{0, 1}));
  EXPECT_TRUE(policy->resident({1, 1}));
}

TEST(ExpertPolicy, ReplacesPinnedExperts) {
  const std::vector<ExpertId> first{{0, 1}}, second{{0, 2}};
  auto policy = make_policy(PolicyKind::pinned, first);
  for (const int64_t expert : {1, 2, 3}) {
    policy->begin_step(expert);
    policy->insert({0, expert});
  }
  policy->begin_step(4);
  policy->pin(second);
  EXPECT_EQ(policy->evict(), (ExpertId{0, 1}));
  EXPECT_EQ(policy->evict(), (ExpertId{0, 3}));
  EXPECT_EQ(policy->evict(), std::nullopt);
}

}  // namespace
}  // namespace moec
