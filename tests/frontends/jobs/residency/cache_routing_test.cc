// Routing that prefers resident experts.
#include "frontends/jobs/residency/cache_routing.h"

#include <nlohmann/json.hpp>

#include "backends/residency/cache_choice.h"
#include "backends/residency/expert_trace.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

using Chosen = std::vector<int64_t>;

TEST(CacheRouting, RaisesLogitsOfResidentExperts) {
  const std::vector<float> logits = {4, 3, 2, 0};  // the range is 4
  const std::vector<bool> last = {false, false, false, true};
  EXPECT_EQ(cache_aware_choice(logits, last, 2, {0, 0}), (Chosen{0, 1}));
  EXPECT_EQ(cache_aware_choice(logits, last, 2, {0.7, 0}), (Chosen{0, 1}));  // 2.8 is below 3
  EXPECT_EQ(cache_aware_choice(logits, last, 2, {0.8, 0}), (Chosen{0, 3}));  // 3.2 is above 3
  EXPECT_EQ(cache_aware_choice(logits, last, 1, {1.1, 0}), (Chosen{3}));
  EXPECT_EQ(cache_aware_choice(logits, last, 1, {1.1, 1}), (Chosen{0}));
  EXPECT_EQ(cache_aware_choice(logits, {false, false, true, true}, 2, {9, 1}), (Chosen{0, 2}));
  EXPECT_EQ(cache_aware_choice(logits, {true, true, true, true}, 2, {9, 0}), (Chosen{0, 1}));
  // As in routers, ties prefer the lower expert.
  EXPECT_EQ(cache_aware_choice(std::vector<float>{1, 1, 1}, {false, false, false}, 2, {1, 0}),
            (Chosen{0, 1}));
}

nlohmann::json routing_of(const std::string& out, Words more) {
  Words words = {"simulate", out, "--prompt", "def f(x):\n    return x + 1\n", "--json", "-q"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome told = run_command(words);
  expect_fine(told);
  return nlohmann::json::parse(told.out)["points"];
}

TEST(CacheRouting, MatchesTheTraceWithoutBias) {
  for (const Words& flags :
       {Words{"--tokens", "1"}, Words{"--tokens", "1,4", "--routing", "host"}}) {
    const std::string out = fresh_folder("out"), trace = fresh_folder("t") + "/t.csv";
    expect_fine(export_case("tinymoe", out, flags));
    expect_fine(run_command(
        {"trace", out, "--prompt", "def f(x):\n    return x + 1\n", "--out", trace, "-q"}));
    const auto points = routing_of(out, {"--capacity", "4", "--policy", "lru,lcp"});
    ASSERT_EQ(points.size(), 2u);
    const SimulatedCache cache{.capacities = {4},
                               .policies = {SimulatedPolicy::lru, SimulatedPolicy::lcp}};
    const auto simulated = simulate_rows(read_trace(trace).value(), cache, {}).value();
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(points[i]["exact"], true);
      EXPECT_EQ(points[i]["changed"], 0);
      EXPECT_LT(points[i]["kl"], 1e-9);
      EXPECT_EQ(points[i]["loads"], simulated.points[i].counts.loads);
    }
  }
}

TEST(CacheRouting, GainsHitsInexactlyWithBias) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out, {"--tokens", "1,4"}));
  const auto points =
      routing_of(out, {"--capacity", "4", "--cache-bias", "0,0.2,9", "--keep-top", "1"});
  ASSERT_EQ(points.size(), 3u);
  EXPECT_LT(points[0]["hits"], points[1]["hits"]);
  EXPECT_LT(points[1]["hits"], points[2]["hits"]);
  EXPECT_EQ(points[1]["exact"], false);
  EXPECT_GT(points[1]["kl"], 0);
  EXPECT_LT(points[1]["kl"], points[2]["kl"]);
  // The best expert of each token and layer is required for any bias.
  const auto free = routing_of(out, {"--capacity", "4", "--cache-bias", "9", "--keep-top", "0"});
  EXPECT_LE(free[0]["loads"], points[2]["loads"]);
  const auto all = routing_of(out, {"--capacity", "4", "--cache-bias", "9", "--keep-top", "2"});
  EXPECT_EQ(all[0]["changed"], 0);
}

// Runs that process tokens one by one select the same experts as the simulation.
TEST(CacheRouting, RunsSelectTheSimulatedExperts) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out, {"--tokens", "1,4", "--experts-per-shard", "4"}));
  const auto run = [&](Words more) {
    Words words = {"run", out, "--prompt", "def f(x):\n    return x + 1\n", "-n", "1", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome told = run_command(words);
    expect_fine(told);
    return nlohmann::json::parse(told.out);
  };
  const Words slots = {"--capacity", "4", "--expert-reads", "serial"};
  const auto with_bias = [&](const char* bias) {
    Words words = slots;
    words.insert(words.end(), {"--cache-bias", bias});
    return run(words)["experts"];
  };
  const auto points = routing_of(out, {"--capacity", "4", "--cache-bias", "0,0.2,9"});
  const char* biases[] = {"0", "0.2", "9"};
  for (size_t i = 0; i < 3; ++i) {
    const auto experts = with_bias(biases[i]);
    EXPECT_EQ(experts["cache_bias"]["changed"], points[i]["changed"]) << biases[i];
    EXPECT_EQ(experts["cache_bias"]["choices"], points[i]["choices"]) << biases[i];
    EXPECT_EQ(experts["cache_bias"]["exact"], i == 0);
    // A run records the hits of a token before its misses; a simulation uses the order of expert
    // numbers.
    EXPECT_NEAR(experts["misses"].get<double>(), points[i]["loads"].get<double>(), 4) << biases[i];
  }
  EXPECT_EQ(run(slots)["tokens"], run({})["tokens"]);
  const auto error = [&](Words more) {
    more.insert(more.begin(), {"run", out, "--prompt", "abc"});
    return run_command(more).err;
  };
  EXPECT_THAT(error({"--capacity", "4", "--cache-bias", "9"}),
              testing::HasSubstr("[inexact: with a bias of 9 for experts in memory"));
  EXPECT_THAT(error({"--cache-bias", "1"}), testing::HasSubstr("run.flags"));
  EXPECT_THAT(error({"--capacity", "4", "--cache-bias", "1", "--expert-mask", "L0:0-7"}),
              testing::HasSubstr("session.cache_bias"));
}

TEST(CacheRouting, RejectsUnsupportedInput) {
  const std::string out = fresh_folder("out"), other = fresh_folder("other");
  expect_fine(export_case("tinymoe", out));
  const auto error = [](const std::string& folder, Words more) {
    Words words = {"simulate", folder, "-q"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words).err;
  };
  const Words text = {"--prompt", "abc"};
  const auto with = [&](Words more) {
    more.insert(more.end(), text.begin(), text.end());
    return error(out, more);
  };
  EXPECT_THAT(with({}), testing::HasSubstr("[simulate.capacity]"));
  EXPECT_THAT(with({"--capacity", "1"}), testing::HasSubstr("picks 2 experts"));
  EXPECT_THAT(with({"--capacity", "4", "--policy", "belady"}),
              testing::HasSubstr("[simulate.policy]"));
  EXPECT_THAT(with({"--capacity", "4", "--pool"}), testing::HasSubstr("[simulate.flags]"));
  EXPECT_THAT(error(out, {"--capacity", "4"}), testing::HasSubstr("[analyze.empty]"));
  EXPECT_THAT(error(out + "/manifest.json", {"--cache-bias", "1"}),
              testing::HasSubstr("[simulate.flags]"));
  // Rejects expert groups and scores with a correction bias.
  expect_fine(export_case("deepseek_v3_a", other));
  EXPECT_THAT(error(other, {"--capacity", "8", "--cache-bias", "1", "--tokens",
                            source_path("tests/golden/deepseek_v3_a/none")}),
              testing::HasSubstr("[session.cache_bias]"));
}

}  // namespace
}  // namespace moec
