// moec simulate on traces.
#include "frontends/jobs/residency/simulate_trace.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/frontends/cli/golden_case.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

// One layer and one expert per token: a textbook page reference string.
std::string textbook_trace() {
  const std::string path = fresh_folder("trace") + "/t.csv";
  std::ofstream file(path);
  file << "layer,token,expert,weight\n";
  int token = 0;
  for (const int expert : {1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5})
    file << fmt::format("0,{},{},1\n", token++, expert);
  return path;
}

std::string profile_that_pins(int64_t layer, int64_t expert) {
  ExpertProfile profile{"m", "", "export", "", 6, 1, {}, {}};
  profile.layers.push_back({.layer = layer, .tokens = 9, .selections = {0, 0, 0, 0, 0, 0}});
  profile.layers[0].selections[static_cast<size_t>(expert)] = 9;
  const std::string path = fresh_folder("profile") + "/profile.json";
  std::ofstream(path) << expert_profile_text(profile);
  return path;
}

TEST(Simulate, PrintsHitsAndBytes) {
  const Outcome told = run_command({"simulate", textbook_trace(), "--capacity", "3,4", "--policy",
                                    "lru,belady", "--expert-bytes", "12MB"});
  expect_fine(told);
  EXPECT_EQ(told.out,
            "12 tokens, 1 layers, 6 experts; a step of 1 token needs up to 1 per layer\n"
            "\nhits as a share of all uses (slots per layer)\n"
            "  slots         lru      belady\n"
            "      3     16.67 %     41.67 %\n"
            "      4     33.33 %     50.00 %\n"
            "\nread per token, with 12.0 MB per expert\n"
            "  slots         lru      belady\n"
            "      3     10.0 MB      7.0 MB\n"
            "      4      8.0 MB      6.0 MB\n");
}

TEST(Simulate, WritesJsonAndAPlot) {
  const std::string plot = fresh_folder("plot") + "/hits.svg";
  const Outcome told = run_command({"simulate", textbook_trace(), "--profile",
                                    profile_that_pins(0, 3), "--plot", plot, "--json"});
  expect_fine(told);
  const auto json = nlohmann::json::parse(told.out);
  EXPECT_EQ(json["largest_step"], 1);
  EXPECT_EQ(json["points"].size(), 6u * 5);  // slots 1 to 6, five policies
  const auto& last = json["points"].back();
  EXPECT_EQ(last["policy"], "belady");
  EXPECT_EQ(last["slots"], 6);
  EXPECT_EQ(last["loads"], 5);
  EXPECT_EQ(last["warm_rate"], 1);
  // With 4 slots, 3 stays resident after its first use: 1, 2, 3 and 4 miss, 1 and 2 hit, and 5
  // replaces 4.
  const auto& pinned = json["points"][3 * 5 + 3];
  EXPECT_EQ(pinned["policy"], "pinned");
  EXPECT_EQ(pinned["slots"], 4);
  EXPECT_EQ(pinned["loads"], 7);
  const std::string svg = read_file(plot);
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  for (const char* name : {"lcp", "lru", "lfu", "pinned", "belady"})
    EXPECT_NE(svg.find(fmt::format(">{}</text>", name)), std::string::npos) << name;
}

TEST(Simulate, PoolsSlotsOfAllLayers) {
  std::vector<TraceRow> rows;  // layer 0 cycles through three experts, layer 1 uses one
  for (int32_t token = 0; token < 10; ++token) {
    rows.push_back({0, token, token % 3, 1});
    rows.push_back({1, token, 0, 1});
  }
  SimulatedCache cache{.capacities = {2}, .policies = {SimulatedPolicy::belady}};
  EXPECT_GT(simulate_rows(rows, cache, {}).value().points[0].counts.loads, 4);
  cache.pool = true;  // 3 + 1 experts in 2 · 2 slots
  EXPECT_EQ(simulate_rows(rows, cache, {}).value().points[0].counts.loads, 4);
}

TEST(Simulate, ReadsExpertBytesFromAnExport) {
  const std::string out = fresh_folder("out"), trace = fresh_folder("t") + "/t.moetrace";
  expect_fine(export_case("tinymoe", out, {"--routing", "host", "--experts-per-shard", "4"}));
  expect_fine(run_command({"trace", out, "--prompt", "def f(x):", "--out", trace, "-q"}));
  const Outcome told = run_command(
      {"simulate", trace, "--export", out, "--capacity", "16", "--policy", "lru", "--json"});
  expect_fine(told);
  const auto json = nlohmann::json::parse(told.out);
  const double bytes = json["expert_bytes"].get<double>();
  const auto& point = json["points"][0];
  EXPECT_GT(bytes, 1000);
  EXPECT_DOUBLE_EQ(point["bytes_per_token"].get<double>(),
                   bytes * point["loads"].get<double>() / 9);
}

// Three weights of 960 floats. The first expert's shard also contains the layer's norm and a shared
// expert. If there is only one shard, it contains the router, too.
TEST(Simulate, CountsOnlyRoutedExpertBytes) {
  for (const Words& flags : {Words{"--routing", "host", "--experts-per-shard", "1"}, Words{}}) {
    const std::string out = fresh_folder("out");
    expect_fine(export_case("qwen2_moe_a", out, flags));
    const Outcome told =
        run_command({"simulate", textbook_trace(), "--export", out, "--capacity", "6", "--json"});
    expect_fine(told);
    EXPECT_EQ(nlohmann::json::parse(told.out)["expert_bytes"], 11520);
  }
  const std::string layers = fresh_folder("layers");
  expect_fine(export_case("qwen2_moe_a", layers, {"--layers-per-shard", "1"}));
  EXPECT_THAT(run_command({"simulate", textbook_trace(), "--export", layers}).err,
              testing::HasSubstr("[simulate.expert_bytes]"));
}

// Alternates between two experts for three windows, then between four others.
TEST(Simulate, ReportsADomainChange) {
  std::vector<TraceRow> rows;
  for (int32_t token = 0; token < 5 * kWindowTokens; ++token)
    rows.push_back({0, token, token < 3 * kWindowTokens ? token % 2 : 2 + token % 4, 1});
  const SimulatedCache cache{.capacities = {2, 6}, .policies = {SimulatedPolicy::lru}};
  const Simulation simulation = simulate_rows(rows, cache, {}).value();
  EXPECT_EQ(simulation.points[0].changes, (std::vector<DomainChange>{{3 * kWindowTokens, 1, 0}}));
  EXPECT_TRUE(simulation.points[1].changes.empty());  // four misses per window
  EXPECT_THAT(simulation_table(simulation),
              testing::HasSubstr("lru with 2 slots: change of domain at token 384\n"));
}

TEST(Simulate, RejectsUnsupportedInput) {
  const std::string trace = textbook_trace();
  const auto error = [&](Words more) {
    more.insert(more.begin(), {"simulate", trace});
    return run_command(more).err;
  };
  EXPECT_THAT(error({"--capacity", "0"}), testing::HasSubstr("[simulate.capacity]"));
  EXPECT_THAT(error({"--capacity", "x"}), testing::HasSubstr("'x' is not a number of slots"));
  EXPECT_THAT(error({"--capacity", "2", "--step-tokens", "12"}),
              testing::HasSubstr("needs 5 experts of a layer, but there are 2 slots"));
  EXPECT_THAT(error({"--policy", "pinned"}), testing::HasSubstr("[simulate.profile]"));
  EXPECT_THAT(error({"--profile", profile_that_pins(1, 3)}),
              testing::HasSubstr("[simulate.profile]"));
  EXPECT_THAT(error({"--policy", "mru"}), testing::HasSubstr("lcp, lru, lfu, pinned, belady"));
  EXPECT_THAT(run_command({"simulate", trace + "x"}).err, testing::HasSubstr("[trace.file]"));
}

}  // namespace
}  // namespace moec
