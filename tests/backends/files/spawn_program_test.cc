#include "backends/files/spawn_program.h"

#include <gmock/gmock.h>

#include <filesystem>

namespace moec {
namespace {

TEST(RunProgram, ReturnsExitCodesAndForwardsArguments) {
  EXPECT_EQ(run_program("true", {}).value(), 0);
  EXPECT_EQ(run_program("sh", {"-c", "exit $1", "sh", "7"}).value(), 7);
  EXPECT_EQ(run_program("sh", {"-c", "kill -TERM $$"}).value(), 128 + 15);
}

TEST(RunProgram, RedirectsOutputToStderrIfQuiet) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_program("sh", {"-c", "echo said"}, true).value(), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "said\n");
}

TEST(RunProgram, ReportsAMissingProgram) {
  const auto missing = run_program("/nowhere/program", {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error()[0].code, "program.start");
  EXPECT_THAT(missing.error()[0].cause, testing::HasSubstr("cannot start /nowhere/program"));
}

TEST(RunProgram, FindsItsOwnExecutable) {
  EXPECT_TRUE(std::filesystem::is_regular_file(path_of_this_program()));
}

}  // namespace
}  // namespace moec
