#include "backends/files/child_program.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

// Answers each message with the same text in square brackets.
constexpr const char* kEcho = R"(import sys
while size := sys.stdin.buffer.readline():
    text = b"[" + sys.stdin.buffer.read(int(size)) + b"]"
    sys.stdout.buffer.write(b"%d\n" % len(text) + text)
    sys.stdout.buffer.flush())";

TEST(ChildProgram, ReturnsTheProgramsAnswer) {
  auto program = ChildProgram::start("python3", {"-c", kEcho});
  ASSERT_TRUE(program) << render(program.error());
  EXPECT_EQ(program->ask("a\nb").value(), "[a\nb]");
  EXPECT_EQ(program->ask("").value(), "[]");
  const std::string large(1 << 20, 'x');
  EXPECT_EQ(program->ask(large).value(), "[" + large + "]");
}

TEST(ChildProgram, ReportsAnExitedProgram) {
  auto program = ChildProgram::start("sh", {"-c", "exit 1"});
  ASSERT_TRUE(program);
  EXPECT_EQ(program->ask("a").error().front().code, "program.ended");
  auto talker = ChildProgram::start("sh", {"-c", "read size; echo no number"});
  ASSERT_TRUE(talker);
  EXPECT_EQ(talker->ask("a").error().front().code, "program.ended");
}

TEST(ChildProgram, NamesAMissingProgram) {
  const auto missing = ChildProgram::start("/nowhere/program", {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().front().code, "program.start");
  EXPECT_THAT(missing.error().front().cause, testing::HasSubstr("/nowhere/program"));
}

}  // namespace
}  // namespace moec
