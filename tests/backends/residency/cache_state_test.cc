#include "backends/residency/cache_state.h"

#include "tests/models/expect_error.h"

namespace moec {
namespace {

const CacheState kState{
    "olmoe", "ab12", PolicyKind::lcp, 9, {{{0, 3}, 2, 9, 5}, {{1, 3}, 1, 7, 4}}};

void expect_bad_state(const std::string& from, const std::string& to, const std::string& code,
                      const std::string& part) {
  std::string text = cache_state_text(kState);
  text.replace(text.find(from), from.size(), to);
  expect_error(parse_cache_state(text, "s.json"), code, part);
}

TEST(CacheState, RoundTripsAndRejectsInvalidTexts) {
  EXPECT_EQ(parse_cache_state(cache_state_text(kState), "s.json").value(), kState);
  expect_bad_state("moec.expert_cache", "moec.cache", "cache_state.bad_value", "format");
  expect_bad_state("\"version\": 1", "\"version\": 2", "cache_state.bad_value", "version");
  expect_bad_state("lcp", "lcq", "cache_state.bad_value", "lru, lfu, lcp, pinned");
  expect_bad_state("\"layer\": 1", "\"layer\": 0", "cache_state.bad_value", "repeats expert");
  expect_bad_state("\"last_step\": 9", "\"last_step\": 10", "cache_state.bad_value",
                   "at most step");
  expect_bad_state("\"count\": 2", "\"count\": 6", "cache_state.bad_value", "at most last_use");
  expect_bad_state("\"count\"", "\"counts\"", "cache_state.missing_field", "count");
  expect_error(read_cache_state("/nonexistent/state"), "cache_state.file", "");
}

TEST(CacheState, RestoresAPolicyFromItsState) {
  for (const PolicyKind kind : {PolicyKind::lru, PolicyKind::lfu, PolicyKind::lcp}) {
    const auto policy = make_policy(kind), later = make_policy(kind);
    const auto use = [](ExpertPolicy& of, int64_t step, int64_t expert) {
      of.begin_step(step);
      if (of.resident({0, expert})) return of.hit({0, expert});
      if (of.size() == 4) of.evict();
      of.insert({0, expert});
    };
    for (int64_t step = 0; step < 40; ++step) use(*policy, step, step * step % 7);
    const CacheState state{"m", "d", kind, policy->step(), policy->experts()};
    const CacheState read = parse_cache_state(cache_state_text(state), "s.json").value();
    EXPECT_EQ(read, state);
    later->restore(read.experts, read.step);
    for (int64_t step = 40; step < 60; ++step) {
      use(*policy, step, step % 6);
      use(*later, step, step % 6);
      EXPECT_EQ(later->experts(), policy->experts());
    }
  }
}

TEST(CacheState, ReturnsTheMostRecentlyUsedExperts) {
  const CacheState state{
      "m",
      "d",
      PolicyKind::lfu,
      9,
      {{{0, 1}, 3, 9, 3}, {{0, 2}, 1, 9, 4}, {{0, 3}, 1, 9, 5}, {{2, 7}, 1, 9, 1}}};
  const std::vector<ResidentExpert> latest = latest_used(state, 2);
  ASSERT_EQ(latest.size(), 3u);
  EXPECT_EQ(latest[0].key, (ExpertId{0, 3}));
  EXPECT_EQ(latest[1].key, (ExpertId{0, 2}));
  EXPECT_EQ(latest[2].key, (ExpertId{2, 7}));
}

}  // namespace
}  // namespace moec
