// The nodes that a gateway remembers for sessions.
#include "frontends/jobs/route/session_pins.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::ElementsAre;
using testing::Eq;
using testing::Optional;

TEST(SessionPins, FindSessionsByKey) {
  SessionPins pins(10);
  pins.set({"alice", "a text"}, {1, 0});
  EXPECT_THAT(pins.find({"alice", "another text"}), Optional(ElementsAre(1, 0)));
  EXPECT_THAT(pins.find({"bob", "a text"}), Eq(std::nullopt));
  // A key is not a text.
  EXPECT_THAT(pins.find({"", "alice"}), Eq(std::nullopt));
}

TEST(SessionPins, FindTheLongestPrefix) {
  SessionPins pins(10);
  pins.set({"", "one"}, {0, 1});
  pins.set({"", "two"}, {1, 0});
  EXPECT_THAT(pins.find({"", "one and more"}), Optional(ElementsAre(0, 1)));
  EXPECT_THAT(pins.find({"", "two"}), Optional(ElementsAre(1, 0)));
  EXPECT_THAT(pins.find({"", "on"}), Eq(std::nullopt));
  EXPECT_THAT(pins.find({"", ""}), Eq(std::nullopt));
}

TEST(SessionPins, ReplaceTheTextAsItGrows) {
  SessionPins pins(10);
  pins.set({"", "one"}, {0});
  pins.set({"", "one and"}, {0});
  EXPECT_EQ(pins.count(0), 1u);
  EXPECT_THAT(pins.find({"", "one"}), Eq(std::nullopt));
  EXPECT_THAT(pins.find({"", "one and more"}), Optional(ElementsAre(0)));
}

TEST(SessionPins, ForgetTheLeastRecentlyUsed) {
  SessionPins pins(2);
  pins.set({"a", ""}, {0});
  pins.set({"b", ""}, {1});
  EXPECT_TRUE(pins.find({"a", ""}));
  pins.set({"c", ""}, {1});
  EXPECT_THAT(pins.find({"b", ""}), Eq(std::nullopt));
  EXPECT_TRUE(pins.find({"a", ""}));
  EXPECT_EQ(pins.count(0), 1u);
  EXPECT_EQ(pins.count(1), 1u);
}

TEST(SessionPins, MoveSessionsToOtherNodes) {
  SessionPins pins(10);
  pins.set({"a", ""}, {0, 1});
  pins.set({"a", ""}, {1, 0});
  EXPECT_EQ(pins.count(0), 0u);
  EXPECT_EQ(pins.count(1), 1u);
}

}  // namespace
}  // namespace moec
