// moec check: rules, coverage, SARIF and output.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/files.h"
#include "tests/frontends/cli/command.h"
#include "tests/frontends/cli/read_json.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// An export for ONNX. The Neural Engine would refuse every op of it, because it is f32.
const std::string& onnx_export() {
  static const std::string folder = [] {
    std::string out = fresh_folder("out");
    run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"});
    return out;
  }();
  return folder;
}

TEST(Check, UsesTheTargetOfTheExportAndOnnxRequiresNoCoverage) {
  const Outcome outcome = run_command({"check", onnx_export(), "--json"});
  EXPECT_EQ(outcome.exit_code, kExitFine) << outcome.out;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["target"], "onnx");
  EXPECT_EQ(report["min_coverage"], 0);
  EXPECT_EQ(report["predicted_coverage"]["ops"], 100.0);
}

TEST(Check, AnotherTargetAppliesItsRules) {
  const Outcome outcome =
      run_command({"check", onnx_export(), "--target", "ane", "--json", "--ops"});
  EXPECT_EQ(outcome.exit_code, kExitFellShort);
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["predicted_coverage"]["ops"], 0.0);
  const json& op = report["shards"][0]["widths"][0]["predicted_units"][0];
  EXPECT_EQ(op["unit"], "CPU or GPU");
  EXPECT_EQ(op["rule"], "S9");
  std::set<std::string> codes;
  for (const json& finding : report["diagnostics"]) codes.insert(finding["code"]);
  EXPECT_EQ(codes, (std::set<std::string>{"target.P2", "target.S9", "check.coverage"}));
  for (const json& limit : report["shards"][0]["byte_limits"])
    EXPECT_EQ(limit["kept"], limit["rule"] != "W5") << limit;
}

// The f32 export breaks a rule with nearly every op. The first stands for all, and no rule is
// hidden.
TEST(Check, FindingsAreCountedByRule) {
  const Outcome brief = run_command({"check", onnx_export(), "--target", "ane"});
  EXPECT_EQ(brief.exit_code, kExitFellShort);
  EXPECT_LT(std::count(brief.out.begin(), brief.out.end(), '\n'), 60);
  EXPECT_THAT(brief.out, AllOf(HasSubstr("error [S9] 5 files, "), HasSubstr("error [P2] "),
                               HasSubstr("error[target.S9] "), HasSubstr("error[target.S9]: and "),
                               HasSubstr("error[target.P2] "), HasSubstr("error[check.coverage] "),
                               HasSubstr("--ops lists all ")));
  const Outcome full = run_command({"check", onnx_export(), "--target", "ane", "--ops"});
  const json report =
      json::parse(run_command({"check", onnx_export(), "--target", "ane", "--ops", "--json"}).out);
  size_t lines = 0;
  for (size_t at = 0; (at = full.out.find("error[", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, report["diagnostics"].size());
  EXPECT_GT(lines, 100u);
}

TEST(Check, OpsOnOtherUnitsAreListed) {
  const Outcome outcome = run_command({"check", onnx_export(), "--target", "ane", "--ops"});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("predicted on CPU or GPU by rule S9"),
                                 HasSubstr("warning [W5]"), HasSubstr("FELL SHORT")));
}

TEST(Check, AMinimumCoverageCanBeRequired) {
  const std::string out = fresh_folder("out");
  run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet", "--dtype", "f16"});
  EXPECT_EQ(run_command({"check", out}).exit_code, kExitFine);
  const Outcome outcome = run_command({"check", out, "--min-coverage", "90"});
  EXPECT_EQ(outcome.exit_code, kExitFellShort);
  EXPECT_THAT(outcome.out, HasSubstr("error[check.coverage]"));
  EXPECT_EQ(run_command({"check", out, "--min-coverage", "101"}).exit_code, kExitBadInput);
}

// mixtral_a is so small that rule W5 says that its shards may leave the Neural Engine as a whole.
TEST(Check, LeavesOpsOfSmallShardsUndecided) {
  const std::string out = fresh_folder("out");
  run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet", "--target", "ane"});
  const Outcome outcome = run_command({"check", out});
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_THAT(
      outcome.out,
      AllOf(
          HasSubstr("predicted on Neural Engine: 0.0 % of compute ops, 0.0 % of MACs, "),
          HasSubstr("undecided: 100.0 % of compute ops, 100.0 % of MACs, 100.0 % of weight bytes"),
          HasSubstr("Neural Engine, undecided by W5"), HasSubstr("warning[check.undecided]"),
          HasSubstr("PASSED"), Not(HasSubstr("check.coverage"))));
  // The flag of older versions is still taken.
  expect_fine(run_command({"check", out, "--allow-disputed"}));
  const json report = json::parse(run_command({"check", out, "--json"}).out);
  EXPECT_EQ(report["ok"], true);
  EXPECT_EQ(report["predicted_coverage"]["ops"], 0.0);
  EXPECT_EQ(report["undecided_coverage"]["ops"], 100.0);
  EXPECT_EQ(report["shards"][0]["undecided_by"], json({"W5"}));
}

// The rule of the target concerns one shard; the ops of all others are predicted as before.
TEST(Check, LeavesOnlyConcernedShardsUndecided) {
  const std::string out = fresh_folder("out"), file = fresh_folder("target") + "/my.json";
  run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"});
  json target = read_json(source_path("backends/targets/onnx.json"));
  json rule = {{"id", "X1"}, {"condition", "weight_bytes_above"}, {"limit", 1}, {"unit", ""}};
  rule.update({{"kinds", json::array({"lm_head"})},
               {"severity", "warning"},
               {"reason", "heads are large"},
               {"confidence", "folklore"},
               {"source", "none"}});
  target["rules"] = json::array({rule});
  std::ofstream(file) << target.dump();
  const Outcome outcome = run_command({"check", out, "--target", file, "--json"});
  EXPECT_EQ(outcome.exit_code, kExitFine);
  const json report = json::parse(outcome.out);
  const double undecided = report["undecided_coverage"]["ops"];
  EXPECT_GT(undecided, 0);
  EXPECT_LT(undecided, 50);
  EXPECT_DOUBLE_EQ(report["predicted_coverage"]["ops"].get<double>() + undecided, 100.0);
  for (const json& shard : report["shards"])
    EXPECT_EQ(shard["undecided_by"].size(), shard["shard"] == "lm_head.0" ? 1u : 0u) << shard;
  rule["severity"] = "note";
  target["rules"] = json::array({rule});
  std::ofstream(file) << target.dump();
  EXPECT_EQ(run_command({"check", out, "--target", file}).exit_code, kExitFine);
}

TEST(Check, FilesThatAreNotOfTheExportAreNamed) {
  for (const char* target : {"onnx", "ane"}) {
    const std::string out = fresh_folder("out");
    run_command(
        {"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet", "--target", target});
    const Outcome clean = run_command({"check", out, "--expected"});
    EXPECT_EQ(clean.exit_code, kExitFine) << clean.out;
    EXPECT_THAT(run_command({"check", out}).out, Not(HasSubstr("manifest.extra_files")));
    for (const char* name : {"/notes.txt", "/moe/L09.data"}) write_file(out + name, "x");
    const Outcome checked = run_command({"check", out});
    EXPECT_EQ(checked.exit_code, kExitFine);
    EXPECT_THAT(checked.out, HasSubstr("warning[manifest.extra_files] " + out +
                                       ": the manifest does not name 2 of the files here: "
                                       "moe/L09.data, notes.txt"));
  }
}

TEST(Check, CompiledGraphsOfEnginesAreNone) {
  const std::string out = fresh_folder("out");
  run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"});
  std::filesystem::create_directory(out + "/.openvino");
  write_file(out + "/.openvino/L00.moe.t1.CPU.0.blob", "x");
  EXPECT_THAT(run_command({"check", out}).out, Not(HasSubstr("manifest.extra_files")));
  write_file(out + "/.openvino/notes.txt", "x");
  EXPECT_THAT(run_command({"check", out}).out,
              HasSubstr("does not name 1 of the files here: .openvino/notes.txt"));
}

TEST(Check, OfManyExtraFilesTheFirstAreNamed) {
  const std::string out = fresh_folder("out");
  run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"});
  for (int i = 10; i < 22; ++i) write_file(out + "/" + std::to_string(i), "x");
  EXPECT_THAT(run_command({"check", out}).out,
              HasSubstr("12 of the files here: 10, 11, 12, 13, 14, 15, 16, 17 and 4 more"));
}

TEST(Check, UnknownNamesAreErrors) {
  const Outcome chip = run_command({"check", onnx_export(), "--target", "ane", "--chip", "m9"});
  EXPECT_EQ(chip.exit_code, kExitBadInput);
  EXPECT_THAT(chip.err, AllOf(HasSubstr("error[target.unknown_chip]"), HasSubstr("a13 (m1)")));
  const Outcome target = run_command({"check", onnx_export(), "--target", "anne"});
  EXPECT_EQ(target.exit_code, kExitBadInput);
  EXPECT_THAT(target.err, AllOf(HasSubstr("error[target.unknown]"), HasSubstr("'ane'")));
  const Outcome rule = run_command({"check", "--explain", "X9"});
  EXPECT_EQ(rule.exit_code, kExitBadInput);
  EXPECT_THAT(rule.err, HasSubstr("error[check.unknown_rule]"));
}

TEST(Check, AUsersTargetIsGivenAsAFile) {
  const std::string out = fresh_folder("out"), file = fresh_folder("target") + "/my.json";
  json target = read_json(source_path("backends/targets/onnx.json"));
  target["name"] = "mine";
  std::ofstream(file) << target.dump();
  ASSERT_EQ(
      run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--target", file, "--quiet"})
          .exit_code,
      kExitFine);
  const Outcome unnamed = run_command({"check", out});
  EXPECT_EQ(unnamed.exit_code, kExitBadInput);
  EXPECT_THAT(unnamed.err, AllOf(HasSubstr("error[check.target_file]"), HasSubstr("\"mine\""),
                                 HasSubstr("--target FILE.json")));
  EXPECT_EQ(run_command({"check", out, "--target", file}).exit_code, kExitFine);
  EXPECT_THAT(run_command({"check", "--target", "mine", "--explain", "O1"}).err,
              HasSubstr("a target of your own is named by its file, FILE.json"));
}

TEST(Check, ExplainsARuleWithItsEvidence) {
  const Outcome one = run_command({"check", "--explain", "O1"});
  EXPECT_EQ(one.exit_code, kExitFine);
  EXPECT_THAT(one.out, AllOf(HasSubstr("confidence: documented"), HasSubstr("source: ")));
  const Outcome both = run_command({"check", "--explain", "S2"});
  EXPECT_THAT(both.out, AllOf(HasSubstr("limit: 16384"), HasSubstr("chips: a13, a14, a15"),
                              HasSubstr("limit: 65536")));
}

TEST(Check, ExplainsFormsOfWeights) {
  const Outcome one = run_command({"check", "--explain", "int8:32"});
  EXPECT_EQ(one.exit_code, kExitFine);
  EXPECT_THAT(one.out, AllOf(HasSubstr("(onnx): taken: "), HasSubstr("with: --form matmul"),
                             HasSubstr("(ane): refused: "), HasSubstr("confidence: measured")));
  const json group = json::parse(
      run_command({"check", "--explain", "int4-lut:g8", "--target", "ane", "--json"}).out);
  ASSERT_EQ(group["weights"].size(), 1u);
  EXPECT_EQ(group["weights"][0]["taken"], true);
  EXPECT_EQ(group["weights"][0]["target"], "ane");
  const json all = json::parse(run_command({"check", "--explain", "weights", "--json"}).out);
  EXPECT_GT(all["weights"].size(), 8u);
  EXPECT_THAT(run_command({"check", "--explain", "float", "--target", "onnx"}).err,
              AllOf(HasSubstr("error[check.unknown_form]"), HasSubstr("float is always taken")));
}

TEST(Check, ExplainsARuleAsJson) {
  const json report = json::parse(run_command({"check", "--explain", "S2", "--json"}).out);
  EXPECT_EQ(report["ok"], true);
  ASSERT_EQ(report["rules"].size(), 2u);
  EXPECT_EQ(report["rules"][0]["target"], "ane");
  EXPECT_EQ(report["rules"][0]["limit"], 16384);
  EXPECT_EQ(report["rules"][0]["chips"], (json{"a13", "a14", "a15"}));
  EXPECT_TRUE(report["rules"][1]["source"].is_string());
}

// Checks what SARIF 2.1.0 requires (version, runs, tool.driver.name, a message for each result),
// and that the rule index of each result points at its rule.
TEST(Check, WritesSarif) {
  const std::string file = fresh_folder("sarif") + "/check.sarif";
  run_command({"check", onnx_export(), "--target", "ane", "--sarif", file});
  const json log = read_json(file);
  EXPECT_EQ(log["version"], "2.1.0");
  ASSERT_EQ(log["runs"].size(), 1u);
  const json& run = log["runs"][0];
  EXPECT_EQ(run["tool"]["driver"]["name"], "moec");
  const json& rules = run["tool"]["driver"]["rules"];
  for (const json& rule : rules) {
    EXPECT_THAT(rule["help"]["text"].get<std::string>(), HasSubstr("confidence: "));
    EXPECT_TRUE(rule["shortDescription"]["text"].is_string());
  }
  ASSERT_FALSE(run["results"].empty());
  for (const json& result : run["results"]) {
    EXPECT_FALSE(result["message"]["text"].get<std::string>().empty());
    EXPECT_EQ(rules.at(result["ruleIndex"].get<size_t>())["id"], result["ruleId"]);
    const std::string level = result["level"];
    EXPECT_TRUE(level == "note" || level == "warning" || level == "error") << level;
    const json& location = result["locations"][0];
    EXPECT_TRUE(std::filesystem::exists(
        onnx_export() + "/" +
        location["physicalLocation"]["artifactLocation"]["uri"].get<std::string>()));
    EXPECT_EQ(location["logicalLocations"][0]["kind"], "module");
  }
}

}  // namespace
}  // namespace moec
