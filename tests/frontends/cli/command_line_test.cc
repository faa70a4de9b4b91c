// Command-line parsing, before a command reads input.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The elements of a list may be one word or several words.
TEST(CommandLine, AcceptsCommaAndSpaceSeparatedLists) {
  const std::string source = checkpoint_of("tinymoe"), out = fresh_folder("out");
  const auto tokens_of = [](const Words& words) {
    const Outcome outcome = run_command(words);
    expect_fine(outcome);
    return nlohmann::json::parse(outcome.out)["tokens"];
  };
  const nlohmann::json both = {1, 16};
  EXPECT_EQ(tokens_of({"plan", source, "--json", "--tokens", "1,16"}), both);
  EXPECT_EQ(tokens_of({"plan", source, "--json", "--tokens", "1", "16"}), both);
  EXPECT_EQ(tokens_of({"plan", source, "--json", "--tokens=1", "16"}), both);
  EXPECT_EQ(tokens_of({"plan", source, "--json", "--tokens", "1, 16"}), both);
  EXPECT_EQ(tokens_of({"plan", "--tokens", "1,", "16", source, "--json"}), both);
  expect_fine(run_command({"plan", "--max-shard-mb", "moe=200", "attn=1000", source}));
  expect_fine(export_case("tinymoe", out, {"--tokens", "1", "2"}));
  const Outcome run =
      run_command({"run", "--prompt-tokens", "65", "66", out, "--max-tokens", "1", "--json"});
  expect_fine(run);
  EXPECT_EQ(nlohmann::json::parse(run.out)["prompt"], (nlohmann::json{65, 66}));
  const std::string ir = source_path("tests/passes/lower_router.ir");
  expect_fine(run_command({"opt", "--passes", "lower_router", "lower_rms_norm", ir}));
  expect_fine(run_command({"opt", "--skip-pass", "fold_constants", "eliminate_common", ir}));
}

TEST(CommandLine, KeepsSpacesInNamesOfFiles) {
  const Words words = {"calibrate", checkpoint_of("mixtral_a"), "--out", fresh_folder("out")};
  for (const char* path : {"/no/such folder/ids 1", "no, such"}) {
    Words all = words;
    all.insert(all.end(), {"--tokens", path});
    EXPECT_THAT(run_command(all).err, HasSubstr(path));
  }
}

TEST(CommandLine, AcceptsTheOldNameOfPrefetch) {
  const auto said = [](const char* reads) {
    return run_command({"run", "/no/such/folder", "--capacity", "1", "--expert-reads", reads}).err;
  };
  EXPECT_THAT(said("magic"), HasSubstr("--expert-reads"));
  EXPECT_THAT(said("prefetch"), Not(HasSubstr("--expert-reads")));
  EXPECT_EQ(said("foresee"), said("prefetch"));
}

TEST(CommandLine, HelpShowsBothListForms) {
  EXPECT_THAT(run_command({"plan", "--help-all"}).out, HasSubstr("1,64 or 1 64"));
  EXPECT_THAT(run_command({"run", "--help-all"}).out, HasSubstr("1,2,3 or 1 2 3"));
}

// A comma-separated list is one argument, so the next word is a new argument.
TEST(CommandLine, EndsCommaListsAfterOneArgument) {
  const std::string out = fresh_folder("out");
  expect_fine(run_command(
      {"export", "--tokens", "1,2", checkpoint_of("tinymoe"), "--out", out, "--quiet"}));
  expect_fine(run_command({"run", "--prompt-tokens", "1,2", out, "--max-tokens", "1"}));
  expect_fine(run_command({"plan", "--max-shard-mb", "moe=200", checkpoint_of("tinymoe")}));
  EXPECT_THAT(run_command({"plan", "--max-shard-mb", "moe=1", "--max-shard-mb", "moe=2", "x"}).err,
              HasSubstr("kind moe has two budgets"));
}

TEST(CommandLine, RejectsNumbersOutsideTheirLimits) {
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

TEST(CommandLine, RejectsConflictingAndDependentFlags) {
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

TEST(CommandLine, SuggestsTheNearestCommand) {
  const Outcome typo = run_command({"exprot", "x"});
  EXPECT_EQ(typo.exit_code, kExitBadInput);
  EXPECT_THAT(
      typo.err,
      AllOf(HasSubstr("error[cli.unknown_command]"),
            HasSubstr("unknown command 'exprot' (did you mean 'export'?)"),
            HasSubstr("next: use one of these commands: inspect, plan, doctor, analyze, export")));
  EXPECT_THAT(run_command({"bogus"}).err,
              AllOf(HasSubstr("unknown command 'bogus'\n"), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(run_command({"family", "chek"}).err, HasSubstr("(did you mean 'check'?)"));
  EXPECT_EQ(run_command({"--version"}).exit_code, kExitFine);
}

TEST(CommandLine, NamesUnknownFlagsInOrder) {
  const Outcome outcome =
      run_command({"plan", "tinymoe", "--zzz", "--targte", "x", "--json=1", "--sarif", "y"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  const std::string& err = outcome.err;
  EXPECT_THAT(err, AllOf(HasSubstr("error[cli.unknown_flag]: unknown flag --zzz\n"),
                         HasSubstr("unknown flag --targte (did you mean '--target'?)"),
                         HasSubstr("unknown flag --sarif; it is a flag of moec check"),
                         HasSubstr("next: run moec plan --help to list the flags")));
  EXPECT_LT(err.find("--zzz"), err.find("--targte"));
  EXPECT_LT(err.find("--targte"), err.find("--sarif"));
  EXPECT_THAT(run_command({"--tokens", "1"}).err, HasSubstr("unknown flag --tokens"));
  EXPECT_THAT(run_command({"run", "x", "-z"}).err, HasSubstr("unknown flag -z"));
  // Option values and words after -- are not flags.
  EXPECT_THAT(run_command({"plan", "--family-file", "--zzz", "--", "--yyy"}).err,
              Not(HasSubstr("unknown flag")));
}

TEST(CommandLine, NamesSurplusWordsInOrder) {
  const Outcome outcome = run_command({"plan", "a", "b", "--tokens", "1", "c"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("error[cli.surplus_word]: unexpected argument \"b\""),
                                 HasSubstr("\"c\"")));
  EXPECT_LT(outcome.err.find("\"b\""), outcome.err.find("\"c\""));
}

// Errors list the allowed values of each flag.
TEST(CommandLine, ListsAllowedValuesForUnknownOnes) {
  const std::string ir = source_path("tests/passes/lower_router.ir");
  for (const auto& [words, said] : std::vector<std::pair<Words, std::string>>{
           {{"plan", "x", "--routing", "rnk"},
            "error[cli.value]: --routing: \"rnk\" is not one of rank, iterate, topk, host, "
            "full_softmax, op (did you mean 'rank'?)"},
           {{"plan", "x", "--dtype", "f64"}, "\"f64\" is not one of f32, f16"},
           {{"plan", "mixtral-8x7b", "--target", "magic"},
            "use one of ane, gguf, litert-mediatek, litert-qnn, litert, litertlm, onnx, openvino, "
            "ort-genai, qnn"},
           {{"plan", "mixtral-8x7b", "--target", "ane", "--chip", "z"}, "use one of a13 (m1)"},
           {{"plan", "mixtral-8x7b", "--max-shard-mb", "x=1"}, "use one of the kinds attn, moe"},
           {{"opt", ir, "--skip-pass", "magic"}, "use one of limit_capacity, "},
           {{"opt", ir, "--dump-after", "magic"}, "use one of limit_capacity, "},
           {{"opt", ir, "--passes", "magic"}, "use one of limit_capacity, "},
           {{"plan", "magic"}, "pass a path or one of a.x-k1, deepseek-r1, "},
           {{"check", "--explain", "X9"}, "use one of its rules: "}}) {
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_THAT(outcome.err, HasSubstr(said));
  }
}

TEST(CommandLine, ReportsCodesOfUsageErrors) {
  for (const auto& [words, code] : std::vector<std::pair<Words, std::string>>{
           {{"export", "x"}, "error[cli.missing]: --out is required"},
           {{"check"}, "error[cli.missing]: OUT is required"},
           {{"plan", "x", "--tokens", "0"}, "error[cli.value]: --tokens"},
           {{"plan", "x", "--context", "many"}, "error[cli.value]: "},
           {{"plan", "x", "--resident-budget", "1GB", "--working-set", "2GB"},
            "error[cli.conflict]: "},
           {{"family"}, "error[cli.missing]: A subcommand is required"}})
    EXPECT_THAT(run_command(words).err, HasSubstr(code));
}

TEST(Help, ListsCommandsByTask) {
  const Outcome outcome = run_command({});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);  // stops a script that lost its arguments
  EXPECT_EQ(outcome.out, run_command({"--help"}).out);
  size_t at = 0;
  for (const char* task :
       {"\nLook:\n", "\nCompile:\n", "\nProve:\n", "\nRun:\n", "\nPlace:\n", "\nLearn:\n"}) {
    at = outcome.out.find(task, at);
    ASSERT_NE(at, std::string::npos) << task;
  }
}

TEST(Help, ShowsAtMostTenOptions) {
  for (const char* command : {"export", "plan", "run", "analyze", "upcycle"}) {
    const std::string help = run_command({command, "--help"}).out;
    size_t options = 0;
    for (size_t at = 0; (at = help.find("\n  -", at)) != std::string::npos; ++at) ++options;
    EXPECT_GE(options, 5u) << command;
    EXPECT_LE(options, 10u) << command;
    EXPECT_THAT(help, HasSubstr(std::string(" more: moec ") + command + " --help-all"));
  }
}

TEST(Help, GroupsEveryOption) {
  for (const char* command :
       {"inspect",  "plan",     "place",    "calibrate", "analyze", "export", "split", "upcycle",
        "check",    "confirm",  "validate", "compare",   "probe",   "run",    "serve", "trace",
        "simulate", "discover", "prepack",  "opt",       "doctor",  "prune"}) {
    const Outcome all = run_command({command, "--help-all"});
    EXPECT_EQ(all.exit_code, kExitFine) << command;
    EXPECT_THAT(all.out, HasSubstr("\nOutput:\n")) << command;
    EXPECT_THAT(all.out, Not(HasSubstr("\nOther:\n"))) << command;
  }
}

// Programs that parse JSON reports must also be able to parse usage errors.
TEST(CommandLine, WritesUsageErrorsAsJson) {
  for (const auto& [words, code] : std::vector<std::pair<Words, std::string>>{
           {{"exprot", "x", "--json"}, "cli.unknown_command"},
           {{"export", "x", "--json"}, "cli.missing"},
           {{"check", "--json", "x", "--bogus"}, "cli.unknown_flag"}}) {
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["diagnostics"][0]["code"], code);
  }
  EXPECT_THAT(run_command({"export", "--json", "--help"}).out, HasSubstr("Usage: "));
}

}  // namespace
}  // namespace moec
