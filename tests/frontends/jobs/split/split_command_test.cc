// The command line of moec split.
#include <gtest/gtest.h>

#include "tests/frontends/cli/command.h"
#include "tests/frontends/jobs/split/split_cases.h"

namespace moec {
namespace {

TEST(SplitCommand, PredictsBytesInADryRun) {
  const std::string source = CutModel().write();
  const Outcome dry = run_command({"split", source, "--groups", "2", "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_NE(dry.out.find("4 of 8"), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find("bytes"), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find("would be written"), std::string::npos) << dry.out;
  EXPECT_NE(dry.err.find("split.inflated"), std::string::npos) << dry.err;
  const Outcome done =
      run_command({"split", source, "--groups", "2", "--out", no_folder("out"), "--quiet"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.out.substr(0, done.out.find("trunk")), dry.out.substr(0, dry.out.find("trunk")));
}

TEST(SplitCommand, RejectsUsageErrors) {
  const std::string source = CutModel().write();
  const std::string out = no_folder("out");
  using Words = std::vector<std::string>;
  for (const auto& [words, code] : std::vector<std::pair<Words, std::string>>{
           {{"split", source, "--groups", "2"}, "cli.missing"},
           {{"split", "--groups", "2", "--out", out}, "cli.missing"},
           {{"split", source, "--groups", "0", "--out", out}, "cli.value"},
           {{"split", source, "--groups", "2", "--expert-list", "*:0-3", "--out", out},
            "cli.conflict"},
           {{"split", source, "--out", out}, "split.selection"},
           {{"split", source_path("models/tinymoe"), "--groups", "2", "--out", out},
            "split.source"}}) {
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.exit_code, 2) << code;
    EXPECT_NE(outcome.err.find(code), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace moec
