#include "backends/residency/hit_window.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backends/residency/changes_json.h"
#include "backends/residency/first_steps.h"

namespace moec {
namespace {

// A token that selects two experts of layer 3, `hits` of them resident.
ChosenStep token_of(int64_t first, int64_t hits) {
  return {3, 1, {{first, 1}, {first + 1, 1}}, hits};
}

// Returns the changes reported for one window per element of `hits`, which is the number of hits of
// each of the window's tokens.
std::vector<DomainChange> changes_of(const std::vector<int64_t>& hits) {
  HitWindow window;
  std::vector<DomainChange> changes;
  for (const int64_t each : hits)
    for (int64_t token = 0; token < kWindowTokens; ++token)
      if (const auto change = window.note(token_of(0, each))) changes.push_back(*change);
  if (const auto change = window.note(token_of(0, 2))) changes.push_back(*change);
  return changes;
}

TEST(HitWindow, ReportsADroppingHitRate) {
  EXPECT_TRUE(changes_of({0, 2, 2, 2}).empty());
  EXPECT_TRUE(changes_of({0, 1, 1, 1, 1, 1, 2, 1}).empty());  // 1/2 is close to 7/12
  EXPECT_EQ(changes_of({0, 2, 2, 1, 1}), (std::vector<DomainChange>{{3 * kWindowTokens, 1, 0.5}}));
  // Each rate is measured since the last change.
  EXPECT_EQ(changes_of({0, 2, 1, 1, 1, 0, 0}),
            (std::vector<DomainChange>{{2 * kWindowTokens, 1, 0.5}, {5 * kWindowTokens, 0.5, 0}}));
}

TEST(ChangesJson, KeepsNamesAndOrder) {
  EXPECT_EQ(changes_json({}).dump(), "[]");
  EXPECT_EQ(changes_json({{256, 1, 0.5}}).dump(),
            R"([{"token":256,"hit_rate_before":1.0,"hit_rate":0.5}])");
}

TEST(HitWindow, RecordsExpertsOfTheLastWindow) {
  HitWindow window;
  for (int64_t token = 0; token < kWindowTokens; ++token) window.note(token_of(token % 2, 0));
  EXPECT_TRUE(window.ended().layers.empty());
  window.note({3, 4, {{9, 4}}, 0});
  ASSERT_EQ(window.ended().layers.size(), 1u);
  EXPECT_EQ(window.ended().layers[0].layer, 3);
  EXPECT_EQ(window.ended().layers[0].tokens, kWindowTokens);
  EXPECT_EQ(window.ended().layers[0].selections,
            (std::vector<int64_t>{kWindowTokens / 2, kWindowTokens, kWindowTokens / 2}));
}

// Two slots, initially with experts 0 and 1. A cold cache would miss expert 0 once.
TEST(FirstSteps, CountsHitsOfAColdCache) {
  FirstSteps first(PolicyKind::lru, 2, {});
  for (int64_t token = 0; token < 2 * kFirstTokens; ++token) first.note({0, 1, {{0, 1}}, 1});
  EXPECT_EQ(first.counts().tokens, kFirstTokens);
  EXPECT_EQ(first.counts().uses, kFirstTokens);
  EXPECT_EQ(first.counts().hits, kFirstTokens);
  EXPECT_EQ(first.counts().cold_hits, kFirstTokens - 1);
  EXPECT_DOUBLE_EQ(first.counts().hit_rate(), 1);
}

TEST(FirstSteps, AcceptsStepsLargerThanTheCache) {
  FirstSteps first(PolicyKind::lru, 2, {});
  for (int64_t step = 0; step < 2; ++step) first.note({0, 3, {{0, 1}, {1, 1}, {2, 1}}, 3});
  EXPECT_EQ(first.counts().uses, 6);
  EXPECT_EQ(first.counts().cold_hits, 2);  // in the last two steps
}

}  // namespace
}  // namespace moec
