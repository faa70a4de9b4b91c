#include "backends/residency/expert_cache.h"

#include "tests/models/expect_error.h"

namespace moec {
namespace {

std::vector<ExpertLoad> use(ExpertCache& cache, int64_t step, int64_t layer,
                            const std::vector<int64_t>& experts) {
  return cache.use(step, layer, experts).value();
}

TEST(ExpertCache, ProtectsAllExpertsOfAStepBeforeTheFirstLoad) {
  ExpertCache cache(PolicyKind::lru, {.slots = 2});
  EXPECT_EQ(use(cache, 0, 0, {4, 5}),
            (std::vector<ExpertLoad>{{{0, 4}, std::nullopt}, {{0, 5}, std::nullopt}}));
  // 4 is the oldest, but the step needs it: 5 leaves.
  EXPECT_EQ(use(cache, 1, 0, {1, 4}), (std::vector<ExpertLoad>{{{0, 1}, ExpertKey{0, 5}}}));
  EXPECT_EQ(use(cache, 2, 0, {1, 4}), std::vector<ExpertLoad>{});
}

TEST(ExpertCache, SlotsAreOfEachLayerOrOfAll) {
  ExpertCache layers(PolicyKind::lru, {.slots = 1});
  use(layers, 0, 0, {3});
  EXPECT_EQ(use(layers, 0, 1, {3}).front().evicted, std::nullopt);
  ExpertCache pool(PolicyKind::lru, {.slots = 1, .pool = true});
  use(pool, 0, 0, {3});
  EXPECT_EQ(use(pool, 0, 1, {3}).front().evicted, (ExpertKey{0, 3}));
  EXPECT_FALSE(pool.resident({0, 3}));
  EXPECT_TRUE(pool.resident({1, 3}));
}

TEST(ExpertCache, StepsThatDoNotFitAreErrors) {
  ExpertCache cache(PolicyKind::lru, {.slots = 2});
  expect_error(cache.use(0, 5, std::vector<int64_t>{1, 2, 3}), "residency.slots", "layer 5");
  const std::vector<ExpertKey> all{{0, 1}, {0, 2}};
  ExpertCache pinned(PolicyKind::pinned, {.slots = 2}, all);
  use(pinned, 0, 0, {1, 2});
  expect_error(pinned.use(1, 0, std::vector<int64_t>{3}), "residency.slots", "pin fewer");
}

TEST(ExpertCache, GoesOnFromItsState) {
  for (const PolicyKind kind : {PolicyKind::lru, PolicyKind::lfu, PolicyKind::lcp}) {
    ExpertCache cache(kind, {.slots = 3});
    for (int64_t step = 0; step < 40; ++step)
      for (int64_t layer = 0; layer < 2; ++layer)
        use(cache, step, layer, {step * step % 5, 5 + step % 3});
    const std::string text = cache_state_text(cache.state());
    ExpertCache later(kind, {.slots = 3});
    later.restore(parse_cache_state(text, "s.json").value());
    EXPECT_EQ(later.state(), cache.state());
    for (int64_t step = 40; step < 60; ++step)
      EXPECT_EQ(use(later, step, 1, {step % 7}), use(cache, step, 1, {step % 7}));
  }
}

TEST(ExpertCache, ASmallerCacheTakesTheLatestUsed) {
  ExpertCache cache(PolicyKind::lfu, {.slots = 3});
  for (const int64_t expert : {1, 1, 1, 2, 3}) use(cache, 0, 0, {expert});
  ExpertCache smaller(PolicyKind::lfu, {.slots = 2});
  smaller.restore(cache.state());
  EXPECT_FALSE(smaller.resident({0, 1}));
  EXPECT_TRUE(smaller.resident({0, 2}));
  EXPECT_TRUE(smaller.resident({0, 3}));
}

const CacheState kState{
    "olmoe", "ab12", PolicyKind::lcp, 9, {{{0, 3}, 2, 9, 5}, {{1, 3}, 1, 7, 4}}};

void expect_bad_state(const std::string& from, const std::string& to, const std::string& code,
                      const std::string& part) {
  std::string text = cache_state_text(kState);
  text.replace(text.find(from), from.size(), to);
  expect_error(parse_cache_state(text, "s.json"), code, part);
}

TEST(CacheState, ReadsWhatItWritesAndRefusesTheRest) {
  EXPECT_EQ(parse_cache_state(cache_state_text(kState), "s.json").value(), kState);
  expect_bad_state("moec.expert_cache", "moec.cache", "cache_state.bad_value", "format");
  expect_bad_state("\"version\": 1", "\"version\": 2", "cache_state.bad_value", "version");
  expect_bad_state("lcp", "lcq", "cache_state.bad_value", "lru, lfu, lcp, pinned");
  expect_bad_state("\"layer\": 1", "\"layer\": 0", "cache_state.bad_value", "again");
  expect_bad_state("\"last_step\": 9", "\"last_step\": 10", "cache_state.bad_value",
                   "at most step");
  expect_bad_state("\"count\": 2", "\"count\": 6", "cache_state.bad_value", "at most last_use");
  expect_bad_state("\"count\"", "\"counts\"", "cache_state.missing_field", "count");
  expect_error(read_cache_state("/nonexistent/state"), "cache_state.file", "");
}

}  // namespace
}  // namespace moec
