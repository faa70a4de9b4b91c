#include "frontends/jobs/plan/place_nodes.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "ir/base/regular_file.h"
#include "models/cluster/prompt_classes.h"
#include "tests/frontends/cli/command.h"

namespace moec {
namespace {

using testing::HasSubstr;

const ExpertGrid kTinymoe{{0, 1, 2, 3}, 16, 2, 1, 1};

// Only experts e and e + 8 are selected together.
std::string write_pairs(const std::string& folder) {
  ExpertProfile profile{.model = "qwen3_moe", .source = "checkpoint", .experts = 16, .top_k = 2};
  for (const int64_t number : kTinymoe.layers) {
    LayerProfile layer{.layer = number, .tokens = 800};
    layer.selections.assign(16, 100);
    layer.mass.assign(16, 50);
    layer.together.assign(static_cast<size_t>(count_pairs(16)), 0);
    for (int64_t e = 0; e < 8; ++e)
      layer.together[static_cast<size_t>(pair_at(e, e + 8, 16))] = 100;
    profile.layers.push_back(std::move(layer));
  }
  const std::string path = folder + "/profile.json";
  std::ofstream(path) << expert_profile_text(profile);
  return path;
}

Outcome place_tinymoe(std::vector<std::string> words) {
  words.insert(words.begin(), {"place", source_path("models/tinymoe")});
  return run_command(words);
}

TEST(PlaceNodes, WritesGroupsForOtherCommands) {
  const std::string folder = fresh_folder("place"), out = folder + "/placement.json";
  const Outcome placed =
      place_tinymoe({"--profile", write_pairs(folder), "--nodes", "4", "--out", out});
  ASSERT_EQ(placed.exit_code, kExitFine) << placed.err;
  EXPECT_THAT(placed.out, HasSubstr("node3                  0-3        4"));
  EXPECT_THAT(placed.out, HasSubstr("25.0 %"));
  const auto text = read_text_file(out, 1 << 20);
  ASSERT_TRUE(text);
  const auto groups = parse_expert_groups(*text, out, kTinymoe);
  ASSERT_TRUE(groups) << render(groups.error());
  EXPECT_TRUE(check_covered(*groups, kTinymoe, out));
  for (const ExpertGroup& group : *groups)
    for (const auto& [layer, experts] : group.experts.layers) {
      ASSERT_EQ(experts.size(), 4u);
      EXPECT_EQ(experts[0] + 8, experts[2]) << "pairs stay together";
      EXPECT_EQ(experts[1] + 8, experts[3]);
    }
}

TEST(PlaceNodes, KeepsTheFileUnlessForced) {
  const std::string out = fresh_folder("place") + "/placement.json";
  const std::vector<std::string> words = {"--nodes", "2", "--policy", "contiguous", "--out", out};
  ASSERT_EQ(place_tinymoe(words).exit_code, kExitFine);
  const Outcome again = place_tinymoe(words);
  EXPECT_EQ(again.exit_code, kExitBadInput);
  EXPECT_THAT(again.err, HasSubstr("[output.exists]"));
  std::vector<std::string> forced = words;
  forced.emplace_back("--force");
  EXPECT_EQ(place_tinymoe(forced).exit_code, kExitFine);
}

TEST(PlaceNodes, ReportsTheRequiredNodes) {
  const Outcome placed = run_command({"place", "qwen3-30b-a3b", "--node-memory", "16GB", "--policy",
                                      "contiguous", "--weights", "4bit", "--json"});
  ASSERT_EQ(placed.exit_code, kExitFine) << placed.err;
  const auto json = nlohmann::json::parse(placed.out);
  ASSERT_EQ(json["nodes"].size(), 2u) << "21 GB in 4 bits";
  for (const auto& node : json["nodes"]) {
    EXPECT_GE(node["experts"], 64);
    EXPECT_LE(node["bytes"], 16'000'000'000);
  }
  const Outcome stages = run_command({"place", "qwen3-30b-a3b", "--nodes", "4", "--stages", "2",
                                      "--policy", "contiguous", "--json"});
  ASSERT_EQ(stages.exit_code, kExitFine) << stages.err;
  EXPECT_EQ(nlohmann::json::parse(stages.out)["stages"], nlohmann::json({"0-23", "24-47"}));
  EXPECT_EQ(nlohmann::json::parse(stages.out)["nodes"][3]["name"], "stage1.node1");
}

TEST(PlaceNodes, CountsBytesIndependentlyOfSplits) {
  const std::vector<std::string> nodes = {"--nodes", "4", "--policy", "contiguous"};
  const std::string whole = place_tinymoe(nodes).out;
  EXPECT_THAT(whole, HasSubstr("2.1 MB"));
  for (const std::vector<std::string>& cut : {std::vector<std::string>{"--routing", "host"},
                                              {"--experts-per-shard", "2"},
                                              {"--layers-per-shard", "2"},
                                              {"--max-shard-mb", "moe=1"}}) {
    std::vector<std::string> words = nodes;
    words.insert(words.end(), cut.begin(), cut.end());
    EXPECT_EQ(place_tinymoe(words).out, whole) << cut.front();
  }
}

TEST(PlaceNodes, CountsBytesInCheckpointTypes) {
  const std::string own = place_tinymoe({"--nodes", "2"}).out;
  EXPECT_THAT(own, testing::AllOf(HasSubstr("3.1 MB"), HasSubstr("placed by memory alone")));
  EXPECT_THAT(place_tinymoe({"--nodes", "2", "--dtype", "f32"}).out, HasSubstr("6.1 MB"));
  EXPECT_THAT(place_tinymoe({"--nodes", "2", "--target", "onnx"}).out, HasSubstr("6.1 MB"));
}

TEST(PlaceNodes, CountsCodesOnlyForExperts) {
  const auto bytes_of = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"place", "kimi-k2.5", "--nodes", "8", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome placed = run_command(words);
    EXPECT_EQ(placed.exit_code, kExitFine) << placed.err;
    return nlohmann::json::parse(placed.out)["nodes"][0]["bytes"].get<double>();
  };
  const double own = bytes_of({}),
               coded =
                   bytes_of({"--weights", "experts=int4:32", "--dtype", "f16", "--form", "matmul"});
  EXPECT_NEAR(own / coded, 1, 0.01);
}

TEST(PlaceNodes, RejectsModelsThatDoNotFit) {
  const std::string folder = fresh_folder("place");
  EXPECT_THAT(place_tinymoe({"--nodes", "2", "--policy", "packed"}).err,
              HasSubstr("[place.profile]"));
  EXPECT_THAT(place_tinymoe({"--node-memory", "1MB", "--policy", "contiguous"}).err,
              HasSubstr("[place.memory]"));
  EXPECT_THAT(place_tinymoe({"--policy", "contiguous"}).err, HasSubstr("[place.nodes]"));
  EXPECT_THAT(run_command({"place", source_path("models/tinytagger"), "--nodes", "2", "--profile",
                           write_pairs(folder)})
                  .err,
              HasSubstr("[profile.model]"));
  EXPECT_THAT(place_tinymoe({"--nodes", "2", "--profile", folder + "/none"}).err,
              HasSubstr("[profile.file]"));
}

// Three nodes of tinymoe, whose trunk has 1.2 MB and whose experts 0.25 MB per layer.
std::string write_cluster(const std::string& folder, const std::string& more = "") {
  const std::string path = folder + "/cluster.json";
  std::ofstream(path) << R"({"nodes": [
    {"name": "slow", "memory": "3MB", "bandwidth": "10GB/s", "link": "1Gbit/s"},
    {"name": "fast", "memory": "4MB", "bandwidth": "100GB/s", "link": "1Gbit/s"},
    {"name": "tiny", "memory": "2.4MB", "bandwidth": "40GB/s", "link": "1Gbit/s")"
                      << more << "}]}";
  return path;
}

TEST(PlaceNodes, AnswersForUnequalNodes) {
  const std::string folder = fresh_folder("place");
  const std::vector<std::string> words = {"--cluster", write_cluster(folder), "--profile",
                                          source_path("tests/data/tinymoe_profile.json"), "--json"};
  const Outcome placed = place_tinymoe(words);
  ASSERT_EQ(placed.exit_code, kExitFine) << placed.err;
  const auto json = nlohmann::json::parse(placed.out);
  ASSERT_EQ(json["nodes"].size(), 2u) << "the smallest number that fits";
  EXPECT_EQ(json["nodes"][0]["machine"], "fast");
  EXPECT_EQ(json["nodes"][1]["machine"], "slow");
  const auto& forecast = json["forecast"];
  EXPECT_EQ(forecast["on_miss"], "mask");
  ASSERT_EQ(forecast["classes"].size(), 5u) << "all, and four categories";
  double fastest = 0;
  for (const auto& prompts : forecast["classes"]) {
    const auto& groups = prompts["groups"];
    EXPECT_NEAR(
        groups[0]["tokens_per_second"].get<double>() / groups[1]["tokens_per_second"].get<double>(),
        10, 1e-6);
    EXPECT_FALSE(groups[0].contains("kl"));
    fastest = groups[0]["tokens_per_second"];
  }
  ASSERT_EQ(forecast["counts"].size(), 2u);
  EXPECT_EQ(forecast["counts"][0]["nodes"], 2);
  EXPECT_NEAR(forecast["counts"][0]["tokens_per_second"].get<double>(), 1.1 * fastest, 1e-3);
  std::vector<std::string> all = words;
  all.insert(all.end(), {"--nodes", "3", "--on-miss", "peer"});
  const auto peers = nlohmann::json::parse(place_tinymoe(all).out);
  EXPECT_EQ(peers["nodes"].size(), 3u);
  for (const auto& group : peers["forecast"]["classes"][0]["groups"])
    EXPECT_LT(group["tokens_per_second"], fastest) << "requests take time";
}

// Share of the routing of each of tinymoe's four categories on the node that keeps the most.
std::vector<double> kept_per_category(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"--nodes",    "4",
                                    "--replicas", "32",
                                    "--profile",  source_path("tests/data/tinymoe_profile.json"),
                                    "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome placed = place_tinymoe(words);
  EXPECT_EQ(placed.exit_code, kExitFine) << placed.err;
  const auto json = nlohmann::json::parse(placed.out);
  std::vector<double> kept;
  for (const auto& prompts : json["forecast"]["classes"]) {
    if (prompts["name"] == kAllPrompts) continue;
    double most = 0;
    for (const auto& group : prompts["groups"]) most = std::max(most, group["kept"].get<double>());
    kept.push_back(most);
  }
  return kept;
}

TEST(PlaceNodes, KeepsMostByCategory) {
  const auto own = kept_per_category({}), packed = kept_per_category({"--policy", "packed"}),
             uncovered = kept_per_category({"--allow-uncovered"});
  ASSERT_EQ(own.size(), 4u);
  for (size_t c = 0; c < 4; ++c) {
    EXPECT_GT(own[c], packed[c]) << c;
    EXPECT_GE(uncovered[c], own[c]) << c;
  }
}

TEST(PlaceNodes, RejectsUnusableUncoveredExperts) {
  EXPECT_THAT(place_tinymoe({"--nodes", "2", "--allow-uncovered"}).err,
              HasSubstr("[place.uncovered]"));
  EXPECT_THAT(
      place_tinymoe({"--nodes", "2", "--profile", source_path("tests/data/tinymoe_profile.json"),
                     "--allow-uncovered", "--on-miss", "peer"})
          .err,
      HasSubstr("[place.uncovered]"));
}

TEST(PlaceNodes, ForecastsMeasuredKl) {
  const std::string folder = fresh_folder("place"), report = folder + "/report.json";
  std::ofstream(report) << R"({"ok": true, "reference": "o", "compared": "o", "groups": [
    {"name": "a", "experts": "*:0", "scores": [{"category": "code", "kl": {"mean": 2.5}}]}]})";
  const std::vector<std::string> words = {
      "--nodes", "2",    "--profile", source_path("tests/data/tinymoe_profile.json"),
      "--kl",    report, "--json"};
  const Outcome placed = place_tinymoe(words);
  ASSERT_EQ(placed.exit_code, kExitFine) << placed.err;
  const auto json = nlohmann::json::parse(placed.out);
  for (const auto& prompts : json["forecast"]["classes"])
    for (const auto& group : prompts["groups"]) {
      EXPECT_EQ(group.contains("kl"), prompts["name"] == "code");
      EXPECT_FALSE(group.contains("tokens_per_second"));
      if (group.contains("kl")) {
        // One point on a line through the origin.
        EXPECT_GT(group["kl"], 0);
        EXPECT_LT(group["kl"], 2.5);
      }
    }
}

TEST(PlaceNodes, RejectsImpossibleClusters) {
  const std::string folder = fresh_folder("place"), cluster = write_cluster(folder);
  const auto error = [](const std::vector<std::string>& words) { return place_tinymoe(words).err; };
  EXPECT_THAT(error({"--cluster", cluster, "--nodes", "4"}), HasSubstr("[place.nodes]"));
  EXPECT_THAT(error({"--cluster", cluster, "--stages", "4"}), HasSubstr("[place.nodes]"));
  EXPECT_THAT(error({"--cluster", cluster, "--nodes", "1"}), HasSubstr("[place.memory]"));
  EXPECT_THAT(error({"--cluster", folder + "/none"}), HasSubstr("[cluster.file]"));
  EXPECT_THAT(error({"--cluster", write_cluster(folder, R"(, "min_experts": 12)"), "--nodes", "3"}),
              HasSubstr("node tiny has"));
  EXPECT_THAT(error({"--cluster", write_cluster(folder, R"(, "min_experts": 17)")}),
              HasSubstr("the model has 16"));
  EXPECT_THAT(error({"--nodes", "2", "--on-miss", "peer", "--profile",
                     source_path("tests/data/tinymoe_profile.json")}),
              HasSubstr("[place.link]"));
  EXPECT_THAT(error({"--nodes", "2", "--kl", cluster}), HasSubstr("[place.kl]"));
  EXPECT_THAT(error({"--nodes", "2", "--kl", cluster, "--on-miss", "skip", "--profile",
                     source_path("tests/data/tinymoe_profile.json")}),
              HasSubstr("[place.kl]"));
}

}  // namespace
}  // namespace moec
