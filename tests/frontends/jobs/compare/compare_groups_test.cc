// moec compare with groups of experts and with other exports.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "frontends/jobs/compare/group_scorer.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Writes `count` parts of tinymoe's held-out text, one file each.
std::string heldout_documents(size_t count) {
  const std::string all = read_file(source_path("tests/data/tinymoe_heldout.bin"));
  std::string files;
  for (size_t i = 0; i < count; ++i) {
    const std::string path = fresh_folder("text" + std::to_string(i)) + "/text";
    write_file(path, all.substr(i * 3000, 90 + 10 * i));
    files += (i == 0 ? "" : ",") + path;
  }
  return files;
}

std::string groups_file(const std::string& groups) {
  const std::string path = fresh_folder("groups") + "/groups.json";
  write_file(path, "{\"groups\": [" + groups + "]}");
  return path;
}

std::string tinymoe_export(const std::string& name, Words flags = {}) {
  const std::string out = fresh_folder(name);
  flags.insert(flags.end(), {"--tokens", "1,16", "--context", "64"});
  expect_fine(export_case("tinymoe", out, flags));
  return out;
}

json group_report(Words words, int exit_code = kExitFine) {
  words.insert(words.begin(), "compare");
  words.emplace_back("--json");
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

double mean(const json& group, const char* figure) { return group["scores"][0][figure]["mean"]; }

TEST(CompareGroups, ScoresFewerExpertsWorse) {
  const std::string out = tinymoe_export("out");
  const json report =
      group_report({out, "--groups", groups_file(R"({"name": "all", "experts": "*:0-15"},
                                                   {"name": "most", "experts": "*:0-13"},
                                                   {"name": "few", "experts": "*:0-4;L0:0-7"})"),
                    "--text", heldout_documents(3)});
  EXPECT_EQ(report["window"], 64);
  const json &all = report["groups"][0], &most = report["groups"][1], &few = report["groups"][2];
  EXPECT_EQ(all["name"], "all");
  for (const char* figure : {"kl", "log_probability"})
    EXPECT_EQ(all["scores"][0][figure], json({{"mean", 0}, {"low", 0}, {"high", 0}})) << figure;
  EXPECT_EQ(all["scores"][0]["top1"], json({{"mean", 1}, {"low", 1}, {"high", 1}}));
  EXPECT_EQ(few["experts"], "L0:0-7;L1-3:0-4");
  const json& scored = few["scores"][0];
  EXPECT_EQ(scored["category"], "all");
  EXPECT_EQ(scored["documents"], 3);
  EXPECT_EQ(scored["tokens"], 90 + 100 + 110);
  EXPECT_EQ(scored["next_tokens"], 300 - 6);  // each document has two windows
  EXPECT_GT(mean(most, "kl"), 0.01);
  EXPECT_GT(mean(few, "kl"), mean(most, "kl"));
  EXPECT_LT(mean(few, "log_probability"), mean(most, "log_probability"));
  EXPECT_LT(mean(few, "top1"), mean(most, "top1"));
  for (const char* figure : {"kl", "log_probability", "top1"}) {
    EXPECT_LT(scored[figure]["low"], scored[figure]["mean"]) << figure;
    EXPECT_GT(scored[figure]["high"], scored[figure]["mean"]) << figure;
  }
}

TEST(CompareGroups, OmitsLogProbabilitiesWithoutNextTokens) {
  const std::string out = tinymoe_export("out");
  const json report =
      group_report({out, "--groups", groups_file(R"({"name": "few", "experts": "*:0-4"})"),
                    "--text", heldout_documents(2), "--window", "1"});
  const json& scored = report["groups"][0]["scores"][0];
  EXPECT_EQ(scored["next_tokens"], 0);
  EXPECT_EQ(scored["log_probability"],
            json({{"mean", nullptr}, {"low", nullptr}, {"high", nullptr}}));
  EXPECT_GT(scored["kl"]["mean"], 0.1);
}

TEST(CompareGroups, MatchesAMaskedExport) {
  const std::string out = tinymoe_export("out");
  const std::string masked = tinymoe_export("masked", {"--expert-mask", "*:0-9"});
  const std::string text = heldout_documents(2);
  const json group = group_report(
      {out, "--groups", groups_file(R"({"name": "low", "experts": "*:0-9"})"), "--text", text});
  const json other = group_report({out, "--against", masked, "--text", text});
  const json &scores = group["groups"][0]["scores"][0], &expected = other["groups"][0]["scores"][0];
  EXPECT_EQ(scores["top1"], expected["top1"]);
  EXPECT_EQ(scores["tokens"], expected["tokens"]);
  EXPECT_NEAR(scores["kl"]["mean"], expected["kl"]["mean"], 1e-5);
  EXPECT_EQ(other["groups"][0]["name"], masked);
  EXPECT_EQ(other["compared"], masked);
}

TEST(CompareGroups, EvaluatesGroupsOnTheirExport) {
  const std::string out = tinymoe_export("out"),
                    small = tinymoe_export("small", {"--weights", "4bit"});
  const Outcome table = run_command({"compare", out, "--against", small, "--groups",
                                     groups_file(R"({"name": "all", "experts": "*:0-15"})"),
                                     "--text", heldout_documents(1)});
  EXPECT_EQ(table.exit_code, kExitFine) << table.err;
  EXPECT_THAT(table.out, HasSubstr("note[compare.one_document]"));
  EXPECT_THAT(table.out, HasSubstr("\nall "));
  EXPECT_THAT(table.out, HasSubstr("PASSED"));
}

TEST(CompareGroups, ScoresASuitePerCategory) {
  const std::string out = tinymoe_export("out");
  const std::string suite = fresh_folder("suite") + "/prompts.jsonl";
  write_file(suite,
             "{\"category\": \"code\", \"text\": \"def f(x):\\n    return x\"}\n"
             "{\"category\": \"prose\", \"text\": \"The rain had stopped.\"}\n"
             "{\"category\": \"code\", \"tokens\": [105, 102, 32, 120]}\n");
  const json report = group_report(
      {out, "--groups", groups_file(R"({"name": "few", "experts": "*:0-4"})"), "--prompts", suite});
  const json& scores = report["groups"][0]["scores"];
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0]["documents"], 3);
  EXPECT_EQ(scores[0]["tokens"], 22 + 21 + 4);
  EXPECT_EQ(scores[1]["category"], "code");
  EXPECT_EQ(scores[1]["documents"], 2);
  EXPECT_EQ(scores[1]["tokens"], 26);
  EXPECT_EQ(scores[2]["category"], "prose");
  EXPECT_EQ(scores[2]["kl"]["low"], nullptr);
}

TEST(CompareGroups, RejectsIncomparableInput) {
  const std::string out = tinymoe_export("out");
  const auto code = [&](Words more) -> std::string {
    more.insert(more.begin(), out);
    return group_report(more, kExitBadInput)["diagnostics"][0]["code"];
  };
  const std::string text = heldout_documents(1);
  EXPECT_EQ(code({"--text", text}), "compare.nothing");
  EXPECT_EQ(code({"--groups", groups_file(R"({"name": "a", "experts": "*:3"})"), "--text", text}),
            "experts.too_few");
  EXPECT_EQ(code({"--groups", groups_file(R"({"name": "a", "experts": "L9:3"})"), "--text", text}),
            "experts.layer");
  EXPECT_EQ(code({"--groups", groups_file(R"({"name": "a", "experts": "*:0-15"})")}),
            "compare.empty");
  const std::string mixtral = fresh_folder("mixtral");
  expect_fine(export_case("mixtral_a", mixtral));
  EXPECT_EQ(code({"--against", mixtral, "--text", text}), "compare.checkpoint");
}

// As if one process had scored all documents.
TEST(GroupScorer, OrdersDocumentsOfOtherProcesses) {
  GroupScorer whole, joined;
  const std::vector<float> even = {0, 0}, first = {0, -1};
  for (int64_t number = 0; number < 3; ++number) {
    for (int64_t t = 0; t <= number; ++t) whole.add(even, first, t % 2);
    whole.end_document(number, "code");
  }
  const std::vector<DocumentScore> documents = whole.documents();
  for (const size_t number : {2U, 0U, 1U}) joined.add(documents[number]);
  EXPECT_EQ(joined.documents(), documents);
  EXPECT_EQ(joined.result()[0].log_probability.mean, whole.result()[0].log_probability.mean);
}

TEST(GroupScorer, AveragesPerDocumentAndCategory) {
  GroupScorer scorer;
  const std::vector<float> even = {0, 0}, first = {0, -1000}, second = {-1000, 0};
  scorer.add(even, first, 0);
  scorer.add(even, even, 1);
  scorer.end_document(0, "code");
  scorer.add(first, first, 0);
  scorer.add(second, second, std::nullopt);
  scorer.end_document(1, "prose");
  const std::vector<CategoryScore> scores = scorer.result();
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0].documents, 2U);
  EXPECT_EQ(scores[0].tokens, 4U);
  EXPECT_EQ(scores[0].next_tokens, 3U);
  EXPECT_NEAR(scores[0].log_probability.mean, std::log(2) / 3, 1e-9);
  EXPECT_EQ(scores[0].top1.mean, 1);
  EXPECT_EQ(scores[1].category, "code");
  EXPECT_NEAR(scores[1].log_probability.mean, std::log(2) / 2, 1e-9);
  EXPECT_FALSE(scores[1].kl.bounds.has_value());
  EXPECT_EQ(scores[2].category, "prose");
  EXPECT_EQ(scores[2].kl.mean, 0);
}

}  // namespace
}  // namespace moec
