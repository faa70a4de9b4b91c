// Parsing of the command line, before a command reads its input.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A comma-separated list is one argument; the word behind it is the next one.
TEST(CommandLine, AListDoesNotTakeTheNextArgument) {
  const std::string out = fresh_folder("out");
  expect_fine(run_command(
      {"export", "--tokens", "1,2", checkpoint_of("tinymoe"), "--out", out, "--quiet"}));
  expect_fine(run_command({"run", "--prompt-tokens", "1,2", out, "--max-tokens", "1"}));
  expect_fine(run_command({"plan", "--max-shard-mb", "moe=200", checkpoint_of("tinymoe")}));
  EXPECT_THAT(run_command({"plan", "--max-shard-mb", "moe=1", "--max-shard-mb", "moe=2", "x"}).err,
              HasSubstr("kind moe has two budgets"));
}

TEST(CommandLine, NumbersOutsideTheirLimitsAreErrors) {
  const std::string source = checkpoint_of("mixtral_a"), out = fresh_folder("out");
  for (const auto& [words, said] : std::vector<std::pair<Words, std::string>>{
           {{"export", source, "--out", out, "--tokens", "1,0"},
            "--tokens: \"0\" is not a whole number of at least 1"},
           {{"export", source, "--out", out, "--seeded-weights=-1"},
            "--seeded-weights: \"-1\" is not a whole number of at least 0"},
           {{"run", out, "--max-tokens", "0"},
            "--max-tokens: \"0\" is not a whole number of at least 1"},
           {{"run", out, "--temperature", "nan"},
            "--temperature: \"nan\" is not a finite number of at least 0"},
           {{"run", out, "--seed=-1"}, "--seed: \"-1\" is not a whole number of at least 0"}}) {
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_THAT(outcome.err, HasSubstr(said));
  }
}

TEST(CommandLine, FlagsThatExcludeOrRequireEachOther) {
  for (const auto& [words, said] : std::vector<std::pair<Words, std::string>>{
           {{"export", "x", "--out", "y", "--multi-function", "--widths", "separate"}, "excludes"},
           {{"export", "x", "--out", "y", "--multi-function", "--widths", "range"}, "excludes"},
           {{"plan", "x", "--resident-budget", "1GB", "--working-set", "2GB"}, "excludes"},
           {{"plan", "x", "--device", "a=1GB", "--replicas", "2"},
            "--replicas requires --loads"}}) {
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_THAT(outcome.err, HasSubstr(said));
  }
}

TEST(CommandLine, AnUnknownCommandGetsASuggestion) {
  const Outcome typo = run_command({"exprot", "x"});
  EXPECT_EQ(typo.exit_code, kExitBadInput);
  EXPECT_THAT(typo.err, AllOf(HasSubstr("error[cli.unknown_command]"),
                              HasSubstr("unknown command 'exprot' (did you mean 'export'?)"),
                              HasSubstr("next: the commands are inspect, plan, export")));
  EXPECT_THAT(run_command({"bogus"}).err,
              AllOf(HasSubstr("unknown command 'bogus'\n"), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(run_command({"family", "chek"}).err, HasSubstr("(did you mean 'check'?)"));
  EXPECT_EQ(run_command({"--version"}).exit_code, kExitFine);
}

// A program that reads reports as JSON must be able to read usage errors, too.
TEST(CommandLine, UsageErrorsAreWrittenAsJson) {
  for (const auto& [words, code] : std::vector<std::pair<Words, std::string>>{
           {{"exprot", "x", "--json"}, "cli.unknown_command"},
           {{"export", "x", "--json"}, "cli.usage"},
           {{"check", "--json", "x", "--bogus"}, "cli.usage"}}) {
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["diagnostics"][0]["code"], code);
  }
  EXPECT_THAT(run_command({"export", "--json", "--help"}).out, HasSubstr("Usage: "));
}

}  // namespace
}  // namespace moec
