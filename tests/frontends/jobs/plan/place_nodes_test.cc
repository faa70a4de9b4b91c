#include "frontends/jobs/plan/place_nodes.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "ir/base/regular_file.h"
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

}  // namespace
}  // namespace moec
