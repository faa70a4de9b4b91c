// With --json, each command prints one object with a success flag and diagnostics.
#include <gmock/gmock.h>
#include <unistd.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "frontends/cli/standard_streams.h"
#include "ir/base/invariant.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

json report_of(Words words, bool ok = true) {
  words.emplace_back("--json");
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.exit_code == kExitFine, ok) << outcome.out << outcome.err;
  json report = json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(report.is_object()) << testing::PrintToString(words);
  if (!report.is_object()) return {};
  EXPECT_TRUE(report.value("ok", json()).is_boolean()) << testing::PrintToString(words);
  EXPECT_EQ(report.value("ok", json()), ok) << testing::PrintToString(words);
  EXPECT_TRUE(report.value("diagnostics", json()).is_array()) << testing::PrintToString(words);
  return report;
}

// Exports a golden case and returns the folder.
std::string exported(const std::string& golden_case, const Words& flags = {}) {
  const std::string out = fresh_folder(golden_case);
  expect_fine(export_case(golden_case, out, flags));
  return out;
}

TEST(JsonReports, ContainResultsAfterSuccess) {
  const std::string source = checkpoint_of("mixtral_a"), out = exported("mixtral_a");
  const std::string ir = source_path("tests/passes/lower_router.ir");
  for (const Words& words :
       {Words{"inspect", source}, Words{"inspect", out}, Words{"inspect", out + "/moe/L00.t1.onnx"},
        Words{"plan", source}, Words{"plan", source, "--device", "a=1GB"}, Words{"plan", "--list"},
        Words{"export", source, "--out", fresh_folder("one")},
        Words{"export", source, "--out", fresh_folder("two"), "--target", "onnx,ane", "--dtype",
              "f16"},
        Words{"check", out}, Words{"check", "--explain", "S2"},
        Words{"validate", out, "--golden", source},
        Words{"run", out, "--prompt-tokens", "1,2", "-n", "2"}, Words{"opt", ir},
        Words{"opt", "--list-passes"},
        Words{"family", "check", source_path("models/families/mixtral.json"), "--checkpoint",
              source}})
    report_of(words);
}

TEST(JsonReports, ContainDiagnosticsAfterFailure) {
  const std::string nowhere = fresh_folder("parent") + "/nowhere";
  for (const Words& words :
       {Words{"inspect", nowhere}, Words{"plan", nowhere}, Words{"plan"},
        Words{"export", nowhere, "--out", fresh_folder("out")}, Words{"check", nowhere},
        Words{"check", "--explain", "X9"}, Words{"validate", nowhere, "--golden", nowhere},
        Words{"compare", nowhere, nowhere, "--text", nowhere},
        Words{"run", nowhere, "--prompt", "x"}, Words{"opt", nowhere}, Words{"opt"},
        Words{"family", "check", nowhere, "--config", nowhere}, Words{"family"}, Words{}})
    EXPECT_GE(report_of(words, false)["diagnostics"].size(), 1u) << testing::PrintToString(words);
}

TEST(JsonReports, ExplainAFailedValidation) {
  const std::string out = exported("mixtral_a", {"--routing", "full_softmax"});
  const json report = report_of({"validate", out, "--golden", checkpoint_of("mixtral_a")}, false);
  ASSERT_GE(report["diagnostics"].size(), 1u);
  EXPECT_EQ(report["diagnostics"][0]["code"], "validate.shard");
  EXPECT_THAT(report["diagnostics"][0]["place"]["shard"].get<std::string>(), HasSubstr(".moe"));
}

TEST(JsonReports, ContainTheTextOfRun) {
  const std::string out = exported("tinymoe");
  const json report = report_of({"run", out, "--prompt", "def ", "-n", "12"});
  std::string text;
  for (const json& token : report["tokens"]) text += static_cast<char>(token.get<int>());
  EXPECT_EQ(report["text"], text);
  EXPECT_EQ(text.size(), 12u);
  EXPECT_EQ(report_of({"run", exported("mixtral_a"), "--prompt-tokens", "1"})["text"], nullptr);
}

TEST(JsonReports, ContainShardAndPassesOfOpt) {
  const std::string ir = source_path("tests/passes/lower_router.ir");
  const json report = report_of({"opt", ir});
  EXPECT_EQ(report["ir"], run_command({"opt", ir}).out);
  EXPECT_EQ(report["passes"][0]["pass"], "lower_router");
  EXPECT_GT(report["passes"][0]["ops_after"], report["passes"][0]["ops_before"]);
}

TEST(JsonReports, ContainNotesOfAllTargets) {
  const json report =
      report_of({"export", checkpoint_of("mixtral_a"), "--out", fresh_folder("out"), "--target",
                 "onnx,ane", "--routing", "full_softmax", "--dtype", "f16"});
  size_t notes = 0;
  for (const json& target : report["targets"]) notes += target["diagnostics"].size();
  EXPECT_GT(notes, 0u);
  EXPECT_EQ(report["diagnostics"].size(), notes);
}

// Fails with an internal error, with or without --json. Redirects stdout to stderr for the death
// test.
void fail_inside(bool json, const std::function<void()>& work) {
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  report_internal_errors(json);
  ReproducerScope scope([] { return std::string("dump.ir"); });
  work();
}

TEST(JsonReportsDeathTest, ReportsInternalErrors) {
  const auto broken = [] { MOEC_CHECK(1 == 2, "no \"{}\"", 3); };
  const testing::ExitedWithCode internal(kInternalErrorExitCode);
  EXPECT_EXIT(fail_inside(true, broken), internal,
              AllOf(HasSubstr(R"("ok": false)"), HasSubstr(R"("code": "internal.error")"),
                    HasSubstr(R"("cause": "no \"3\" (tests/)"), HasSubstr("with dump.ir\"")));
  EXPECT_EXIT(fail_inside(false, broken), internal,
              AllOf(HasSubstr("internal error: no \"3\" (tests/"), Not(HasSubstr("\"ok\""))));
}

TEST(JsonReportsDeathTest, ReportsUncaughtExceptionsAsInternal) {
  const auto raise = [] { throw std::out_of_range("far away"); };
  const auto raise_elsewhere = [&] { std::thread(raise).join(); };
  const testing::ExitedWithCode internal(kInternalErrorExitCode);
  EXPECT_EXIT(fail_inside(true, raise_elsewhere), internal,
              AllOf(HasSubstr(R"("ok": false)"), HasSubstr(R"("code": "internal.error")"),
                    HasSubstr(R"("cause": "uncaught exception: far away")")));
  EXPECT_EXIT(fail_inside(false, raise_elsewhere), internal,
              HasSubstr("internal error: uncaught exception: far away\n"));
}

TEST(JsonReports, NoteF16RunsOfF32Exports) {
  const std::string out = exported("deepseek_v3_a"), half = fresh_folder("half");
  expect_fine(export_case("deepseek_v3_a", half, {"--dtype", "f16"}));
  const auto codes = [](const json& report) {
    std::vector<std::string> found;
    for (const json& one : report["diagnostics"]) found.push_back(one["code"]);
    return found;
  };
  const auto of_run = [&](const std::string& folder, const std::string& precision) {
    return codes(
        report_of({"run", folder, "--prompt-tokens", "1", "-n", "1", "--precision", precision}));
  };
  EXPECT_THAT(of_run(out, "f16"), ElementsAre("session.f32_routers"));
  EXPECT_THAT(of_run(out, "f32"), IsEmpty());
  EXPECT_THAT(of_run(half, "f16"), IsEmpty());
  const std::string golden = source_path("tests/golden/deepseek_v3_a");
  const json validated = report_of({"validate", out, "--golden", golden, "--precision", "f16"});
  EXPECT_THAT(codes(validated), ElementsAre("session.f32_routers"));
}

}  // namespace
}  // namespace moec
