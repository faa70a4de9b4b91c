#include <gtest/gtest.h>

#include "frontends/jobs/check/check_folder.h"

namespace moec {
namespace {

TEST(CheckTotals, CountFilesAndOpsPerRule) {
  CheckReport report;
  report.target.rules.resize(3);
  const TargetRule* rules = report.target.rules.data();
  report.rules = {{&rules[2], "s", "b", "x", 1, ""},
                  {&rules[0], "s", "a", "x", 2, ""},
                  {&rules[0], "s", "a", "y", 3, ""},
                  {&rules[0], "s", "b", "z", 4, ""}};
  const std::vector<BrokenRule> broken = broken_rules(report);
  ASSERT_EQ(broken.size(), 2u);
  EXPECT_EQ(broken[0].rule, &rules[0]);
  EXPECT_EQ(broken[0].files, 2u);
  EXPECT_EQ(broken[0].ops, 9);
  EXPECT_EQ(broken[1].rule, &rules[2]);
}

TEST(CheckTotals, SumTheShards) {
  CheckReport report;
  report.shards.resize(2);
  report.shards[0].weight_bytes = 3;
  report.shards[1].weight_bytes = 4;
  EXPECT_EQ(checked_weight_bytes(report), 7);
  report.shards[0].widths.resize(2);
  report.shards[0].widths[0].placement.transitions = 1;
  report.shards[0].widths[1].placement.transitions = 5;
  EXPECT_EQ(transitions(report.shards[0]), 6);
}

}  // namespace
}  // namespace moec
