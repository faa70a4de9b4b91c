// moec probe: the group of experts that is to serve a text.
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

TEST(ProbeGroups, ChoosesByTheRoutingOfTheFirstTokens) {
  const json report = probe(
      {probed_export(), "--groups", three_groups(), "--prompt", "def run(self):\n    return 1\n"});
  EXPECT_EQ(report["groups"], json({"few", "all", "half"}));
  ASSERT_EQ(report["documents"].size(), 1u);
  const json& document = report["documents"][0];
  EXPECT_EQ(document["seen"], 28);
  EXPECT_EQ(document["chosen"], "all");
  EXPECT_NEAR(document["scores"][1], 1, 1e-6);
  EXPECT_GT(document["scores"][0], 0.0);
  EXPECT_LT(document["scores"][0], document["scores"][2]);
  EXPECT_LT(document["scores"][2], 1.0);
  EXPECT_FALSE(document.contains("best")) << "nothing follows the prompt";
  EXPECT_FALSE(report.contains("figures"));
}

TEST(ProbeGroups, MeasuresTheRegretOnTheRestOfTheDocuments) {
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
    EXPECT_DOUBLE_EQ(document["regret"], best - values[1].get<double>()) << "all was chosen";
    regrets += document["regret"].get<double>() / 3;
    hits += document["best"] == "all" ? 1.0 / 3 : 0;
    for (const double value : values) others += (best - value) / 9;
  }
  EXPECT_NEAR(report["figures"]["hits"], hits, 1e-12);
  EXPECT_NEAR(report["figures"]["regret"], regrets, 1e-12);
  EXPECT_NEAR(report["figures"]["regret_of_chance"], others, 1e-12);
  EXPECT_LE(report["figures"]["regret_of_one"], report["figures"]["regret_of_chance"]);
}

TEST(ProbeGroups, LogitsThatAreNotNumbersAreNoRegret) {
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

TEST(ProbeGroups, LabelsOfTokensAreNoPredictions) {
  const std::string out = fresh_folder("out"), ids = fresh_folder("ids") + "/ids";
  expect_fine(export_case("openai_privacy_filter_a", out, {"--tokens", "8", "--context", "8"}));
  write_file(ids, "40 41 42 43 44 45 46");
  const std::string groups = fresh_folder("groups") + "/groups.json";
  write_file(groups, R"({"groups": [{"name": "all", "experts": ""}]})");
  const json report = probe({out, "--groups", groups, "--tokens", ids, "--prefill", "2"});
  EXPECT_EQ(report["documents"][0]["rest"], 0);
  EXPECT_FALSE(report.contains("figures"));
}

TEST(ProbeGroups, RefusesWhatItCannotProbe) {
  const std::string out = probed_export();
  EXPECT_THAT(run_command({"probe", out, "--groups", out + "/none.json", "--prompt", "a"}).err,
              HasSubstr("[groups.file]"));
  EXPECT_THAT(run_command({"probe", out, "--groups", three_groups()}).err,
              HasSubstr("[compare.empty]"));
  const std::string one = fresh_folder("one") + "/groups.json";
  write_file(one, R"({"groups": [{"name": "one", "experts": "*:3"}]})");
  EXPECT_THAT(run_command({"probe", out, "--groups", one, "--prompt", "a"}).err,
              HasSubstr("[experts.too_few]"));
}

}  // namespace
}  // namespace moec
