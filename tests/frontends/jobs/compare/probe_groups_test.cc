// moec probe: selects the expert group for a text.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kThreeGroups = R"({"groups": [{"name": "few", "experts": "*:0-3"},
                                                    {"name": "all", "experts": "*:0-15"},
                                                    {"name": "half", "experts": "*:8-15"}]})";

std::string probed_export() {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out, {"--tokens", "1,16", "--context", "64"}));
  return out;
}

std::string three_groups() {
  const std::string path = fresh_folder("groups") + "/groups.json";
  write_file(path, kThreeGroups);
  return path;
}

json probe(Words words) {
  words.insert(words.begin(), "probe");
  words.emplace_back("--json");
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.exit_code, kExitFine) << outcome.out << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

TEST(ProbeGroups, SelectsByRoutingOfFirstTokens) {
  const json report = probe(
      {probed_export(), "--groups", three_groups(), "--prompt", "def run(self):\n    return 1\n"});
  EXPECT_EQ(report["groups"], json({"few", "all", "half"}));
  ASSERT_EQ(report["documents"].size(), 1u);
  const json& document = report["documents"][0];
  EXPECT_EQ(document["seen"], 28);
  EXPECT_EQ(report["score"], "mass");
  EXPECT_EQ(document["chosen"], "all");
  EXPECT_EQ(document["scores"], document["kept"]);
  EXPECT_NEAR(document["scores"][1], 1, 1e-6);
  ASSERT_EQ(document["routing"].size(), 4u) << "one list per layer";
  for (const json& layer : document["routing"]) {
    double sum = 0;
    for (const double share : layer) sum += share;
    EXPECT_NEAR(sum, 1, 1e-6);
  }
  EXPECT_GT(document["scores"][0], 0.0);
  EXPECT_LT(document["scores"][0], document["scores"][2]);
  EXPECT_LT(document["scores"][2], 1.0);
  EXPECT_FALSE(document.contains("best")) << "nothing follows the prompt";
  EXPECT_FALSE(report.contains("figures"));
}

TEST(ProbeGroups, MeasuresRegretOnRemainingTokens) {
  const std::string all = read_file(source_path("tests/data/tinymoe_heldout.bin"));
  std::string files;
  for (size_t i = 0; i < 3; ++i) {
    const std::string path = fresh_folder("text" + std::to_string(i)) + "/text";
    write_file(path, all.substr(i * 9000, 60));
    files += (i == 0 ? "" : ",") + path;
  }
  const json report =
      probe({probed_export(), "--groups", three_groups(), "--text", files, "--prefill", "20"});
  ASSERT_EQ(report["documents"].size(), 3u);
  double regrets = 0, hits = 0, others = 0;
  for (const json& document : report["documents"]) {
    EXPECT_EQ(document["seen"], 20);
    EXPECT_EQ(document["rest"], 40);
    const json& values = document["log_probability"];
    double best = values[0];
    for (const double value : values) best = std::max(best, value);
    EXPECT_DOUBLE_EQ(document["regret"], best - values[1].get<double>())
        << "the group all was selected";
    regrets += document["regret"].get<double>() / 3;
    hits += document["best"] == "all" ? 1.0 / 3 : 0;
    for (const double value : values) others += (best - value) / 9;
  }
  const json& figures = report["figures"];
  EXPECT_NEAR(figures["hits"]["mean"], hits, 1e-12);
  EXPECT_NEAR(figures["regret"]["mean"], regrets, 1e-12);
  EXPECT_LE(figures["regret"]["low"], figures["regret"]["mean"]);
  EXPECT_GE(figures["regret"]["high"], figures["regret"]["mean"]);
  EXPECT_NEAR(figures["regret_of_chance"]["mean"], others, 1e-12);
  EXPECT_LE(figures["regret_of_one"]["mean"], figures["regret_of_chance"]["mean"]);
  ASSERT_EQ(figures["load"].size(), 3u);
  EXPECT_EQ(figures["load"][0]["mean"], 0);
  EXPECT_EQ(figures["load"][1]["mean"], 1);
}

TEST(ProbeGroups, ReportsNoBoundsForOneDocument) {
  const json report = probe({probed_export(), "--groups", three_groups(), "--prompt",
                             "def run(self): return self.names", "--prefill", "20"});
  EXPECT_EQ(report["figures"]["load"][1], json({{"mean", 1}, {"low", nullptr}, {"high", nullptr}}));
}

// Two prompts in each of two categories, long enough for a prefill of 20 tokens.
std::string two_categories() {
  const std::string path = fresh_folder("suite") + "/suite.jsonl";
  std::string lines;
  for (const char* text : {"def run(self, names):\\n    return [n for n in names]\\n",
                           "for index in range(10):\\n    print(index + 1)\\n    pass\\n"})
    lines += std::string(R"({"category": "code", "text": ")") + text + "\"}\n";
  for (const char* text : {"12 + 30 = 42\\n18 + 21 = 39\\n40 + 11 = 51\\n7 + 8 = 15\\n",
                           "91 - 30 = 61\\n72 - 51 = 21\\n66 - 60 = 6\\n5 - 1 = 4\\n"})
    lines += std::string(R"({"category": "sums", "text": ")") + text + "\"}\n";
  write_file(path, lines);
  return path;
}

// An export with a probe table for two halves of its experts, measured on two_categories().
std::string export_with_table() {
  const std::string out = probed_export(), groups = fresh_folder("groups") + "/groups.json";
  write_file(groups, R"({"groups": [{"name": "low", "experts": "*:0-7"},
                                    {"name": "high", "experts": "*:8-15"}]})");
  probe({out, "--groups", groups, "--prompts", two_categories(), "--prefill", "20", "--write"});
  return out;
}

double mean_of(const json& documents, size_t first, const char* field, size_t group) {
  return (documents[first][field][group].get<double>() +
          documents[first + 1][field][group].get<double>()) /
         2;
}

TEST(ProbeGroups, ListsItsTableInTheManifest) {
  const std::string out = export_with_table();
  const json measured =
      probe({out, "--prompts", two_categories(), "--score", "mass", "--prefill", "20"});
  const json table = json::parse(read_file(out + "/probe.json"));
  EXPECT_EQ(table["prefill"], 20);
  ASSERT_EQ(table["categories"].size(), 2u);
  for (size_t c = 0; c < 2; ++c) {
    const json& category = table["categories"][c];
    EXPECT_EQ(category["name"], c == 0 ? "code" : "sums");
    EXPECT_EQ(category["documents"], 2);
    for (size_t g = 0; g < 2; ++g) {
      EXPECT_NEAR(category["log_probability"][g],
                  mean_of(measured["documents"], 2 * c, "log_probability", g), 1e-4);
      EXPECT_NEAR(category["kept"][g], mean_of(measured["documents"], 2 * c, "kept", g), 1e-5);
    }
    double share = 0;
    for (size_t d = 2 * c; d < 2 * c + 2; ++d)
      share += measured["documents"][d]["routing"][1][3].get<double>() / 2;
    EXPECT_NEAR(category["routing"][1][3], share, 1e-5);
  }
  expect_fine(run_command({"check", out}));
}

TEST(ProbeGroups, SelectsByTheTable) {
  const std::string out = export_with_table();
  const json table = json::parse(read_file(out + "/probe.json"));
  const json report = probe({out, "--prompts", two_categories()});
  EXPECT_EQ(report["score"], "table");
  EXPECT_EQ(report["prefill"], 20) << "from the table";
  EXPECT_EQ(report["groups"], json({"low", "high"}));
  for (size_t d = 0; d < 4; ++d) {
    const json& document = report["documents"][d];
    EXPECT_EQ(document["nearest"], document["category"])
        << "the table was measured on these prompts";
    EXPECT_EQ(document["scores"], table["categories"][d / 2]["log_probability"]);
    const bool low = document["scores"][0] >= document["scores"][1];
    EXPECT_EQ(document["chosen"], low ? "low" : "high");
  }
}

TEST(ProbeGroups, RejectsATableOfAnotherModel) {
  const std::string out = export_with_table();
  std::string table = read_file(out + "/probe.json");
  ASSERT_NE(table.find("L0-3:0-7"), std::string::npos);
  write_file(out + "/probe.json", table.replace(table.find("L0-3:0-7"), 8, "L0-3:0-9"));
  const Outcome checked = run_command({"check", out});
  EXPECT_EQ(checked.exit_code, kExitFellShort) << checked.out << checked.err;
  EXPECT_THAT(checked.out + checked.err, HasSubstr("manifest.digest_changed"));
  write_file(out + "/probe.json", table.replace(table.find("L0-3:0-9"), 8, "L0-3:9-99"));
  const Outcome refused = run_command({"check", out});
  EXPECT_THAT(refused.out + refused.err, HasSubstr("experts.expert"));
  EXPECT_THAT(run_command({"probe", out, "--prompt", "a"}).err, HasSubstr("[experts.expert]"));
}

TEST(ProbeGroups, RejectsNonfiniteLogits) {
  const CheckpointCopy copy("tinymoe");
  copy.overwrite("lm_head.weight", std::string("\x80\x7f", 2));  // infinity in bf16
  const std::string out = fresh_folder("out"), text = fresh_folder("text") + "/text";
  expect_fine(run_command({"export", copy.folder(), "--out", out, "--tokens", "1,16", "--context",
                           "64", "--allow-nonfinite"}));
  write_file(text, std::string(60, 'a'));
  const Outcome probed = run_command({"probe", out, "--groups", three_groups(), "--text", text});
  EXPECT_EQ(probed.exit_code, kExitBadInput);
  EXPECT_THAT(probed.err, HasSubstr("[probe.nonfinite]"));
}

TEST(ProbeGroups, OmitsFiguresForTaggingModels) {
  const std::string out = fresh_folder("out"), ids = fresh_folder("ids") + "/ids";
  expect_fine(export_case("openai_privacy_filter_a", out, {"--tokens", "8", "--context", "8"}));
  write_file(ids, "40 41 42 43 44 45 46");
  const std::string groups = fresh_folder("groups") + "/groups.json";
  write_file(groups, R"({"groups": [{"name": "all", "experts": ""}]})");
  const json report = probe({out, "--groups", groups, "--tokens", ids, "--prefill", "2"});
  EXPECT_EQ(report["documents"][0]["rest"], 0);
  EXPECT_FALSE(report.contains("figures"));
}

TEST(ProbeGroups, RejectsUnusableInput) {
  const std::string out = probed_export();
  EXPECT_THAT(run_command({"probe", out, "--groups", out + "/none.json", "--prompt", "a"}).err,
              HasSubstr("[groups.file]"));
  EXPECT_THAT(run_command({"probe", out, "--groups", three_groups()}).err,
              HasSubstr("[compare.empty]"));
  const std::string one = fresh_folder("one") + "/groups.json";
  write_file(one, R"({"groups": [{"name": "one", "experts": "*:3"}]})");
  EXPECT_THAT(run_command({"probe", out, "--groups", one, "--prompt", "a"}).err,
              HasSubstr("[experts.too_few]"));
  EXPECT_THAT(run_command({"probe", out, "--prompt", "a"}).err, HasSubstr("[probe.no_table]"));
  EXPECT_THAT(
      run_command({"probe", out, "--groups", three_groups(), "--score", "table", "--prompt", "a"})
          .err,
      HasSubstr("[probe.no_table]"));
  EXPECT_THAT(
      run_command({"probe", out, "--groups", three_groups(), "--prompt", "a", "--write"}).err,
      HasSubstr("[probe.no_rest]"));
  EXPECT_THAT(run_command({"probe", export_with_table(), "--groups", three_groups(), "--score",
                           "table", "--prompt", "a"})
                  .err,
              HasSubstr("[probe.other_groups]"));
}

}  // namespace
}  // namespace moec
