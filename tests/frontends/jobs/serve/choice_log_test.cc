#include "frontends/jobs/serve/choice_log.h"

#include <gmock/gmock.h>

#include "ir/experts/expert_profile.h"

namespace moec {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;

TEST(ChoiceLog, CountsExpertsAndPairs) {
  ChoiceLog log(3, 1000);
  // The last column is a null slot.
  log.add(4, {4,
              {0, 1, 3, 0,  //
               2, 0, 0, 2,  //
               0, 0, 0, 0}});
  const LayerChoices layer = log.layer(4);
  EXPECT_EQ(layer.tokens, 2) << "tokens without an expert do not count";
  EXPECT_THAT(layer.selections, ElementsAre(1, 1, 1));
  EXPECT_THAT(layer.mass, ElementsAre(0.5, 0.25, 0.75));
  EXPECT_THAT(layer.together, ElementsAre(0, 0, 1));
}

TEST(ChoiceLog, HalvesAfterTheHalfLife) {
  ChoiceLog log(2, 100);
  log.add(0, {2, {1, 1}});
  for (int i = 0; i < 10; ++i) log.advance(10);
  log.add(0, {2, {1, 0}});
  const LayerChoices layer = log.layer(0);
  EXPECT_NEAR(layer.tokens, 1.5, 1e-12);
  EXPECT_THAT(layer.selections, ElementsAre(DoubleNear(1.5, 1e-12), DoubleNear(0.5, 1e-12)));
  EXPECT_THAT(layer.together, ElementsAre(DoubleNear(0.5, 1e-12)));
}

TEST(ChoiceLog, StaysFiniteForManyTokens) {
  ChoiceLog log(2, 100);
  // 2^5000 is far above the largest double.
  for (int i = 0; i < 5000; ++i) {
    log.advance(100);
    log.add(0, {2, {1, 1}});
  }
  const LayerChoices layer = log.layer(0);
  EXPECT_NEAR(layer.tokens, 2, 1e-9);
  EXPECT_THAT(layer.mass, Each(DoubleNear(1, 1e-9)));
}

TEST(ChoiceLog, ReturnsZerosWithoutTokens) {
  const LayerChoices layer = ChoiceLog(4, 10).layer(7);
  EXPECT_EQ(layer.tokens, 0);
  EXPECT_THAT(layer.selections, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(std::ssize(layer.together), count_pairs(4));
}

}  // namespace
}  // namespace moec
