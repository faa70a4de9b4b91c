// moec check: rules, coverage, SARIF, and printed output.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/files.h"
#include "tests/frontends/cli/command.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// An ONNX export. It is f32, so the Neural Engine would reject every op.
const std::string& onnx_export() {
  static const std::string folder = [] {
    std::string out = fresh_folder("out");
    run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"});
    return out;
  }();
  return folder;
}

TEST(Check, AppliesTheTargetOfTheExport) {
  const Outcome outcome = run_command({"check", onnx_export(), "--json"});
  EXPECT_EQ(outcome.exit_code, kExitFine) << outcome.out;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["target"], "onnx");
  EXPECT_EQ(report["min_coverage"], 0);
  EXPECT_EQ(report["predicted_coverage"]["ops"], 100.0);
}

TEST(Check, AppliesRulesOfTheGivenTarget) {
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

// Nearly every op of the f32 export breaks a rule. The report lists every rule, with its first op.
TEST(Check, CountsFindingsPerRule) {
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

TEST(Check, ListsOpsOnOtherUnits) {
  const Outcome outcome = run_command({"check", onnx_export(), "--target", "ane", "--ops"});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("predicted on CPU or GPU by rule S9"),
                                 HasSubstr("warning [W5]"), HasSubstr("FELL SHORT")));
}

TEST(Check, AppliesARequestedMinimumCoverage) {
  const std::string out = fresh_folder("out");
  run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet", "--dtype", "f16"});
  EXPECT_EQ(run_command({"check", out}).exit_code, kExitFine);
  const Outcome outcome = run_command({"check", out, "--min-coverage", "90"});
  EXPECT_EQ(outcome.exit_code, kExitFellShort);
  EXPECT_THAT(outcome.out, HasSubstr("error[check.coverage]"));
  EXPECT_EQ(run_command({"check", out, "--min-coverage", "101"}).exit_code, kExitBadInput);
}

// mixtral_a is so small that, by rule W5, whole shards may leave the Neural Engine.
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
  // The flag of older versions is still accepted.
  expect_fine(run_command({"check", out, "--allow-disputed"}));
  const json report = json::parse(run_command({"check", out, "--json"}).out);
  EXPECT_EQ(report["ok"], true);
  EXPECT_EQ(report["predicted_coverage"]["ops"], 0.0);
  EXPECT_EQ(report["undecided_coverage"]["ops"], 100.0);
  EXPECT_EQ(report["shards"][0]["undecided_by"], json({"W5"}));
}

// The target's rule applies to one shard; predictions for the other shards are unchanged.
TEST(Check, LeavesOnlyAffectedShardsUndecided) {
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

TEST(Check, NamesExtraFiles) {
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
    EXPECT_THAT(
        checked.out,
        HasSubstr(
            "warning[manifest.extra_files] " + out +
            ": the folder has 2 files that are not in the manifest: moe/L09.data, notes.txt"));
  }
}

TEST(Check, AcceptsCompiledGraphsOfEngines) {
  const std::string out = fresh_folder("out");
  run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"});
  std::filesystem::create_directory(out + "/.openvino");
  write_file(out + "/.openvino/L00.moe.t1.CPU.0.blob", "x");
  EXPECT_THAT(run_command({"check", out}).out, Not(HasSubstr("manifest.extra_files")));
  write_file(out + "/.openvino/notes.txt", "x");
  EXPECT_THAT(run_command({"check", out}).out,
              HasSubstr("has 1 files that are not in the manifest: .openvino/notes.txt"));
}

TEST(Check, ShortensListsOfExtraFiles) {
  const std::string out = fresh_folder("out");
  run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"});
  for (int i = 10; i < 22; ++i) write_file(out + "/" + std::to_string(i), "x");
  EXPECT_THAT(
      run_command({"check", out}).out,
      HasSubstr(
          "12 files that are not in the manifest: 10, 11, 12, 13, 14, 15, 16, 17 and 4 more"));
}

TEST(Check, RejectsUnknownChipsTargetsAndRules) {
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

TEST(Check, ReadsATargetFromAFile) {
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
              HasSubstr("the path of a target file, FILE.json"));
}

TEST(Check, ExplainsARuleWithEvidence) {
  const Outcome one = run_command({"check", "--explain", "O1"});
  EXPECT_EQ(one.exit_code, kExitFine);
  EXPECT_THAT(one.out, AllOf(HasSubstr("confidence: documented"), HasSubstr("source: ")));
  const Outcome both = run_command({"check", "--explain", "S2"});
  EXPECT_THAT(both.out, AllOf(HasSubstr("limit: 16384"), HasSubstr("chips: a13, a14, a15"),
                              HasSubstr("limit: 65536")));
}

TEST(Check, ExplainsWeightForms) {
  const Outcome one = run_command({"check", "--explain", "int8:32"});
  EXPECT_EQ(one.exit_code, kExitFine);
  EXPECT_THAT(one.out, AllOf(HasSubstr("(onnx): accepted: "), HasSubstr("with: --form matmul"),
                             HasSubstr("(ane): refused: "), HasSubstr("confidence: measured")));
  const json group = json::parse(
      run_command({"check", "--explain", "int4-lut:g8", "--target", "ane", "--json"}).out);
  ASSERT_EQ(group["weights"].size(), 1u);
  EXPECT_EQ(group["weights"][0]["taken"], true);
  EXPECT_EQ(group["weights"][0]["target"], "ane");
  const json all = json::parse(run_command({"check", "--explain", "weights", "--json"}).out);
  EXPECT_GT(all["weights"].size(), 8u);
  EXPECT_THAT(run_command({"check", "--explain", "float", "--target", "onnx"}).err,
              AllOf(HasSubstr("error[check.unknown_form]"), HasSubstr("or float")));
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

// Checks what SARIF 2.1.0 requires (version, runs, tool.driver.name, a message per result), and
// that each result's rule index refers to the result's rule.
TEST(Check, WritesValidSarif) {
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
