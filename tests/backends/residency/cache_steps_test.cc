#include "backends/residency/cache_steps.h"

#include <bit>
#include <random>
#include <set>

#include "tests/models/expect_error.h"

namespace moec {
namespace {

constexpr PolicyKind kPolicies[] = {PolicyKind::lru, PolicyKind::lfu, PolicyKind::lcp,
                                    PolicyKind::pinned};

struct TraceShape {
  int64_t layers, tokens, experts, chosen;
};

// Rows of tokens that select distinct experts, low numbers more often than high ones.
std::vector<TraceRow> random_rows(uint64_t seed, const TraceShape& shape) {
  std::mt19937_64 random(seed);
  std::vector<TraceRow> rows;
  for (int32_t token = 0; token < shape.tokens; ++token)
    for (int32_t layer = 0; layer < shape.layers; ++layer) {
      std::set<int32_t> chosen;
      while (std::ssize(chosen) < shape.chosen) {
        const uint64_t most = 1 + random() % static_cast<uint64_t>(shape.experts);
        chosen.insert(static_cast<int32_t>(random() % most));
      }
      for (const int32_t expert : chosen) rows.push_back({layer, token, expert, 1});
    }
  return rows;
}

int64_t policy_loads(const std::vector<CacheStep>& steps, PolicyKind kind, CacheSlots slots) {
  const std::vector<ExpertId> pinned = {{0, 0}, {1, 0}};
  return simulate_policy(steps, kind, slots, pinned).value().loads;
}

TEST(CacheSteps, GroupsTokensIntoStepsByLayer) {
  const std::vector<TraceRow> rows = {{0, 0, 3, 1}, {0, 0, 7, 1}, {1, 0, 2, 1}, {0, 1, 3, 1},
                                      {0, 1, 5, 1}, {1, 1, 2, 1}, {0, 2, 1, 1}};
  EXPECT_EQ(cache_steps(rows, 2),
            (std::vector<CacheStep>{{0, 0, {3, 5, 7}}, {0, 1, {2}}, {1, 0, {1}}}));
  EXPECT_EQ(cache_steps(rows, 1).size(), 5u);
  EXPECT_EQ(largest_step(cache_steps(rows, 2)), 3);
}

// A textbook example: 3 slots, 12 uses, 7 faults with Belady and 10 with LRU.
TEST(CacheSteps, MatchesBeladyOnATextbookTrace) {
  std::vector<CacheStep> steps;
  for (const int64_t expert : {1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5})
    steps.push_back({std::ssize(steps), 0, {expert}});
  const CacheCounts best = simulate_belady(steps, {.slots = 3}).value();
  EXPECT_EQ(best, (CacheCounts{12, 7, 5}));
  EXPECT_DOUBLE_EQ(best.hit_rate(), 5.0 / 12);
  EXPECT_DOUBLE_EQ(best.warm_rate(), 5.0 / 7);
  EXPECT_EQ(policy_loads(steps, PolicyKind::lru, {.slots = 3}), 10);
}

TEST(CacheSteps, BoundsAllPoliciesByBelady) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const TraceShape shape{2, 80, 12, 1 + static_cast<int64_t>(seed % 3)};
    const auto rows = random_rows(seed, shape);
    for (const int64_t tokens : {1, 3}) {
      const auto steps = cache_steps(rows, tokens);
      // Two extra slots for pinned experts.
      for (int64_t slots = largest_step(steps) + 2; slots <= 14; ++slots)
        for (const CacheSlots of : {CacheSlots{slots, false}, CacheSlots{2 * slots, true}}) {
          const int64_t best = simulate_belady(steps, of).value().loads;
          for (const PolicyKind kind : kPolicies)
            ASSERT_LE(best, policy_loads(steps, kind, of))
                << "seed " << seed << " slots " << slots << " " << enum_name(kind);
        }
    }
  }
}

// Minimum number of loads for one layer, by exhaustive search over evictions. Bit sets represent up
// to 8 resident experts.
int64_t fewest_loads(const std::vector<CacheStep>& steps, int64_t slots) {
  std::map<uint32_t, int64_t> loads = {{0, 0}};
  for (const CacheStep& step : steps) {
    uint32_t needed = 0;
    for (const int64_t expert : step.experts) needed |= 1U << expert;
    std::map<uint32_t, int64_t> after;
    for (const auto& [cache, sum] : loads) {
      const int64_t sum_after = sum + std::popcount(needed & ~cache);
      const uint32_t rest = cache & ~needed;
      for (uint32_t kept = rest;; kept = (kept - 1) & rest) {
        if (std::popcount(kept | needed) <= slots) {
          const auto [found, added] = after.try_emplace(kept | needed, sum_after);
          found->second = std::min(found->second, sum_after);
        }
        if (kept == 0) break;
      }
    }
    loads = std::move(after);
  }
  return std::min_element(loads.begin(), loads.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->second;
}

TEST(CacheSteps, MatchesExhaustiveSearchWithBelady) {
  for (uint64_t seed = 100; seed < 160; ++seed) {
    const auto steps =
        cache_steps(random_rows(seed, {1, 40, 8, 1 + static_cast<int64_t>(seed % 3)}),
                    1 + static_cast<int64_t>(seed % 2));
    for (int64_t slots = largest_step(steps); slots <= 8; ++slots)
      ASSERT_EQ(simulate_belady(steps, {.slots = slots}).value().loads, fewest_loads(steps, slots))
          << "seed " << seed << " slots " << slots;
  }
}

TEST(CacheSteps, LoadsNoMoreWithMoreSlots) {
  for (uint64_t seed = 200; seed < 220; ++seed) {
    const auto steps = cache_steps(random_rows(seed, {2, 100, 16, 3}), 1 + seed % 3);
    int64_t lru = INT64_MAX, best = INT64_MAX;
    for (int64_t slots = largest_step(steps); slots <= 16; ++slots) {
      const int64_t lru_loads = policy_loads(steps, PolicyKind::lru, {.slots = slots});
      const int64_t best_loads = simulate_belady(steps, {.slots = slots}).value().loads;
      ASSERT_LE(lru_loads, lru);
      ASSERT_LE(best_loads, best);
      lru = lru_loads;
      best = best_loads;
    }
  }
}

TEST(CacheSteps, AlwaysHitsWithEnoughSlots) {
  const auto steps = cache_steps(random_rows(5, {3, 60, 10, 2}), 1);
  for (const CacheSlots of : {CacheSlots{10, false}, CacheSlots{30, true}}) {
    EXPECT_EQ(simulate_belady(steps, of).value().warm_rate(), 1);
    for (const PolicyKind kind : kPolicies)
      EXPECT_EQ(simulate_policy(steps, kind, of, {}).value().warm_rate(), 1);
  }
}

TEST(CacheSteps, RejectsStepsLargerThanTheCache) {
  const std::vector<CacheStep> steps = {{0, 0, {1, 2, 3}}};
  expect_error(simulate_belady(steps, {.slots = 2}), "residency.slots", "3 experts");
  expect_error(simulate_policy(steps, PolicyKind::lcp, {.slots = 2}, {}), "residency.slots", "");
}

}  // namespace
}  // namespace moec
