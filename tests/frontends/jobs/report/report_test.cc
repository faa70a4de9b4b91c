// moec report: the data of its page, and refusals. tests/peers/test_report.py opens the page.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json report_of(const std::string& folder, Words more = {}) {
  more.insert(more.begin(), {"report", folder, "--json"});
  const Outcome outcome = run_command(more);
  expect_fine(outcome);
  return json::parse(outcome.out);
}

TEST(Report, HoldsEachShard) {
  const std::string out = fresh_folder("report_all");
  expect_fine(export_case("mixtral_a", out, {"--routing", "host", "--experts-per-shard", "2"}));
  const json of = report_of(out)["exports"][0];
  const json manifest = json::parse(read_file(out + "/manifest.json"));
  ASSERT_EQ(of["shards"].size(), manifest["shards"].size());
  for (size_t i = 0; i < of["shards"].size(); ++i) {
    const json &shard = of["shards"][i], &wanted = manifest["shards"][i];
    EXPECT_EQ(shard[0], wanted["name"]);
    EXPECT_EQ(shard[2], json({wanted["first_expert"], wanted["experts"]}));
    EXPECT_EQ(shard[3], wanted["weight_bytes"]);
    const json& kind = of["kinds"][shard[5].get<size_t>()];
    EXPECT_EQ(kind["kind"], wanted["kind"]);
    EXPECT_EQ(kind["cost"][1], wanted["cost"]["bytes_active"]);
    EXPECT_FALSE(kind["passes"].empty());
  }
  // Shards with equal ops and passes share an entry.
  EXPECT_LT(of["kinds"].size(), of["shards"].size());
  EXPECT_EQ(of["experts"], 5);
  EXPECT_TRUE(of["expected"].empty());
}

TEST(Report, ExpectsOnlyKeptExperts) {
  const std::string out = fresh_folder("report_masked");
  expect_fine(export_case("tinymoe", out, {"--expert-mask", "L1:0-3,9", "--drop-masked"}));
  const json of = report_of(out)["exports"][0];
  EXPECT_EQ(of["expected"], json({{"1", {0, 1, 2, 3, 9}}}));
}

TEST(Report, ShowsTheNodesOfASplit) {
  const std::string out = fresh_folder("report_whole"), nodes = fresh_folder("report_nodes");
  expect_fine(export_case("tinymoe", out, {"--routing", "host", "--experts-per-shard", "4"}));
  expect_fine(run_command({"split", out, "--groups", "2", "--out", nodes}));
  const json of = report_of(nodes, {"--against", out})["exports"];
  ASSERT_EQ(of.size(), 2u);
  EXPECT_EQ(of[0]["parts"].size(), 2u);
  EXPECT_TRUE(of[0]["expected"].empty());
  EXPECT_EQ(of[1]["parts"].size(), 1u);
  for (const auto& node : std::filesystem::directory_iterator(nodes))
    if (node.is_directory()) {
      EXPECT_EQ(report_of(node.path())["exports"][0]["expected"].size(), 4u) << node.path();
    }
}

TEST(Report, RefusesOtherSources) {
  const auto error = [](Words words) {
    words.insert(words.begin(), "report");
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.out;
    return outcome.err;
  };
  const std::string out = fresh_folder("report_refused"), page = fresh_folder("page") + "/p.html";
  expect_fine(export_case("tinymoe", out));
  EXPECT_THAT(error({out}), HasSubstr("--html or --json"));
  EXPECT_THAT(error({fresh_folder("empty"), "--html", page}), HasSubstr("report.source"));
  EXPECT_THAT(error({out, "--html", out + "/page.html"}), HasSubstr("--html"));
  expect_fine(run_command({"report", out, "--html", page}));
  EXPECT_THAT(error({out, "--html", page}), HasSubstr("--force"));
  expect_fine(run_command({"report", out, "--html", page, "--force"}));
  const std::string other = fresh_folder("report_other");
  expect_fine(export_case("tinymoe", other));
  EXPECT_THAT(error({out, "--against", other, "--html", other + "/p.html"}),
              HasSubstr("output.in_source"));
  for (const char* odd :
       {"{", "[1]", R"({"shards": [3]})", R"({"shards": [{"shard": "L00.moe", "passes": 4}]})"}) {
    std::ofstream(out + "/report.json") << odd;
    EXPECT_THAT(error({out, "--html", page, "--force"}), HasSubstr("report.malformed")) << odd;
  }
}

// A profile of an imatrix, which has no routing mass.
std::string profile_of(int64_t experts, const std::string& selections) {
  const std::string path = fresh_folder("report_profile") + "/profile.json";
  std::ofstream(path) << R"({"format": "moec.expert_profile", "version": 1, "model": "mixtral",
      "checkpoint": "", "source": "imatrix", "text": "", "experts": )"
                      << experts << R"(, "top_k": 2, "categories": [],
      "layers": [{"layer": 0, "tokens": 4, "selections": )"
                      << selections << "}]}";
  return path;
}

TEST(Report, NamesTheMeasuredUse) {
  const std::string out = fresh_folder("report_use");
  expect_fine(export_case("mixtral_a", out));
  const json use = report_of(out, {"--profile", profile_of(5, "[2, 0, 1, 4, 1]")})["use"];
  EXPECT_EQ(use["name"], "selections");
  EXPECT_EQ(use["layers"]["0"], json({0.25, 0, 0.125, 0.5, 0.125}));
}

TEST(Report, RefusesProfilesOfOtherModels) {
  const std::string out = fresh_folder("report_no_use");
  expect_fine(export_case("mixtral_a", out));
  const Outcome outcome =
      run_command({"report", out, "--json", "--profile", profile_of(3, "[2, 1, 3]")});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.out + outcome.err, HasSubstr("report.profile"));
}

}  // namespace
}  // namespace moec
