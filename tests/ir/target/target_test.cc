#include "ir/target/target.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

Target sample() {
  Target target;
  target.name = "sample";
  target.chips = {{"old", {"m1"}, ""}, {"new", {"m4", "m5"}, ""}};
  target.rules = {
      {.id = "old", .condition = RuleCondition::extent_above, .limit = 100, .chips = {"old"}},
      {.id = "new", .condition = RuleCondition::extent_above, .limit = 200, .chips = {"new"}},
      {.id = "channels",
       .condition = RuleCondition::extent_above,
       .axes = {Axis::channels},
       .limit = 150},
      {.id = "fan_in",
       .condition = RuleCondition::operands_above,
       .limit = 11,
       .severity = Severity::warning},
      {.id = "one_op",
       .condition = RuleCondition::extent_above,
       .ops = *OpSet::named("transpose"),
       .limit = 7},
      {.id = "warned",
       .condition = RuleCondition::extent_above,
       .limit = 8,
       .severity = Severity::warning}};
  target.limits = derive_limits(target.rules);
  return target;
}

TEST(Limits, UsesTheSmallestErrorRules) {
  EXPECT_EQ(sample().limits, (TargetLimits{.channels = 100, .extent = 100, .fan_in = 11}));
  EXPECT_EQ(derive_limits({}), TargetLimits{});
}

TEST(ForChip, KeepsTheRulesOfItsFamily) {
  const Target target = for_chip(sample(), "m5").value();
  ASSERT_EQ(target.rules.size(), 5u);
  EXPECT_EQ(target.rules[0].id, "new");
  EXPECT_EQ(target.limits, (TargetLimits{.channels = 150, .extent = 200, .fan_in = 11}));
  EXPECT_EQ(for_chip(sample(), "old").value().limits.extent, 100);
}

TEST(ForChip, ListsKnownChipsForUnknownOnes) {
  const auto target = for_chip(sample(), "m9");
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error()[0].code, "target.unknown_chip");
  EXPECT_EQ(target.error()[0].next_step, "use one of old (m1), new (m4, m5)");
  EXPECT_FALSE(for_chip(Target{}, "m1"));
}

TEST(OpSets, ContainOneMnemonicOrOneKind) {
  const OpSet add = OpSet::named("add").value(), binary = OpSet::named("binary").value();
  EXPECT_TRUE(add.contains(Binary{BinaryFn::add}));
  EXPECT_FALSE(add.contains(Binary{BinaryFn::max}));
  EXPECT_FALSE(add.contains(Unary{}));
  EXPECT_TRUE(binary.contains(Binary{BinaryFn::max}));
  EXPECT_FALSE(OpSet::named("ad"));
  EXPECT_TRUE(OpSet().empty());
}

}  // namespace
}  // namespace moec
