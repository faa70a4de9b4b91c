#include "frontends/cli/print/progress.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

TEST(Progress, ShowsLongTimesInHours) {
  EXPECT_EQ(clock_text(0), "0:00");
  EXPECT_EQ(clock_text(7.9), "0:07");
  EXPECT_EQ(clock_text(59 * 60 + 59), "59:59");
  EXPECT_EQ(clock_text(3600), "1:00:00");
  EXPECT_EQ(clock_text(12345), "3:25:45");
  EXPECT_EQ(clock_text(400 * 3600), "400:00:00");
}

TEST(Progress, CutsLinesBetweenCharacters) {
  EXPECT_EQ(first_columns("export", 6), "export");
  EXPECT_EQ(first_columns("export", 5), "expor");
  // A character outside ASCII may need two columns.
  EXPECT_EQ(first_columns("aé字b", 2), "a");
  EXPECT_EQ(first_columns("aé字b", 3), "aé");
  EXPECT_EQ(first_columns("aé字b", 5), "aé字");
  EXPECT_EQ(first_columns("aé字b", 6), "aé字b");
}

TEST(Progress, PrintsNothingOutsideTerminals) {
  testing::internal::CaptureStderr();
  {
    Progress progress("export", false);
    for (int tenth = 0; tenth < 10; ++tenth) progress.advance(10, 100, "attn/L00");
    progress.finish();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace moec
