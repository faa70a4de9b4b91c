#include "backends/residency/expert_cache.h"

#include "tests/models/expect_error.h"

namespace moec {
namespace {

std::vector<ExpertLoad> use(ExpertCache& cache, int64_t step, int64_t layer,
                            const std::vector<int64_t>& experts) {
  return cache.use(step, layer, experts).value();
}

TEST(ExpertCache, ProtectsExpertsOfTheCurrentStep) {
  ExpertCache cache(PolicyKind::lru, {.slots = 2});
  EXPECT_EQ(use(cache, 0, 0, {4, 5}),
            (std::vector<ExpertLoad>{{{0, 4}, std::nullopt}, {{0, 5}, std::nullopt}}));
  // Expert 4 is the oldest, but this step needs it, so expert 5 is evicted.
  EXPECT_EQ(use(cache, 1, 0, {1, 4}), (std::vector<ExpertLoad>{{{0, 1}, ExpertId{0, 5}}}));
  EXPECT_EQ(use(cache, 2, 0, {1, 4}), std::vector<ExpertLoad>{});
}

TEST(ExpertCache, LimitsSlotsPerLayerOrPool) {
  ExpertCache layers(PolicyKind::lru, {.slots = 1});
  use(layers, 0, 0, {3});
  EXPECT_EQ(use(layers, 0, 1, {3}).front().evicted, std::nullopt);
  ExpertCache pool(PolicyKind::lru, {.slots = 1, .pool = true});
  use(pool, 0, 0, {3});
  EXPECT_EQ(use(pool, 0, 1, {3}).front().evicted, (ExpertId{0, 3}));
  EXPECT_FALSE(pool.resident({0, 3}));
  EXPECT_TRUE(pool.resident({1, 3}));
}

TEST(ExpertCache, RejectsStepsLargerThanTheCache) {
  ExpertCache cache(PolicyKind::lru, {.slots = 2});
  expect_error(cache.use(0, 5, std::vector<int64_t>{1, 2, 3}), "residency.slots", "layer 5");
  const std::vector<ExpertId> all{{0, 1}, {0, 2}};
  ExpertCache pinned(PolicyKind::pinned, {.slots = 2}, all);
  use(pinned, 0, 0, {1, 2});
  expect_error(pinned.use(1, 0, std::vector<int64_t>{3}), "residency.slots", "pin fewer");
}

}  // namespace
}  // namespace moec
