#include "ir/base/bounded_diagnostics.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

Diagnostic finding(const std::string& code, size_t number) {
  return {Severity::error, code, std::to_string(number), {}, {}};
}

TEST(BoundedDiagnostics, KeepsFirstFindingsAndCountsRest) {
  BoundedDiagnostics all;
  for (size_t i = 0; i < BoundedDiagnostics::kKept + 5; ++i) all.add(finding("many", i));
  all.add(finding("few", 0));
  EXPECT_EQ(all.count(), BoundedDiagnostics::kKept + 6);
  const Diagnostics kept = all.take();
  ASSERT_EQ(kept.size(), BoundedDiagnostics::kKept + 2);
  EXPECT_EQ(kept[BoundedDiagnostics::kKept], finding("few", 0));
  EXPECT_EQ(kept.back(),
            (Diagnostic{Severity::error, "many", "and 5 more with this code", {}, {}}));
}

TEST(BoundedDiagnostics, CountsDuplicateFindingsOnce) {
  BoundedDiagnostics all;
  all.add(finding("one", 1));
  all.add(finding("one", 1));
  EXPECT_EQ(all.count(), 1u);
  EXPECT_EQ(all.take(), Diagnostics{finding("one", 1)});
}

TEST(BoundedDiagnostics, SkipsMessagesOfCountedFindings) {
  BoundedDiagnostics all;
  EXPECT_FALSE(all.only_counts("many"));
  for (size_t i = 0; i < BoundedDiagnostics::kKept; ++i) all.add(finding("many", i));
  EXPECT_TRUE(all.only_counts("many"));
  EXPECT_EQ(all.count(), BoundedDiagnostics::kKept + 1);
  EXPECT_EQ(all.take().back().cause, "and 1 more with this code");
}

}  // namespace
}  // namespace moec
