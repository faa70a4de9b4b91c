// moec plan --device-profile: speed, memory and capacity of a planned export.
#include "models/plan/forecast.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "ir/target/device_profile_json.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/made_up_profile.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// Of models/tinymoe/config.json.
constexpr int64_t kLayers = 4, kExperts = 16, kChosen = 2;

class PlanForecast : public testing::Test {
 protected:
  Outcome plan(Words more) {
    Words words = {"plan", checkpoint_of("tinymoe"), "--device-profile", profile_};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }

  json forecast(Words more) {
    more.emplace_back("--json");
    const Outcome outcome = plan(std::move(more));
    EXPECT_EQ(outcome.exit_code, kExitFine) << outcome.out << outcome.err;
    json report = json::parse(outcome.out);
    json forecast = report["forecast"];
    forecast["expert_size"] = report["expert_bytes"];
    return forecast;
  }

  // A trace in which the first experts of each layer, from `first` on, serve every token.
  std::string trace(int64_t layers, int64_t tokens, int64_t first = 0) {
    std::string rows = "layer,token,expert,weight\n";
    for (int64_t token = 0; token < tokens; ++token)
      for (int64_t layer = first; layer < first + layers; ++layer)
        for (int64_t expert = 0; expert < kChosen; ++expert)
          rows += std::to_string(layer) + "," + std::to_string(token) + "," +
                  std::to_string(expert) + ",0.5\n";
    const std::string path = folder_ + "/trace.csv";
    write_file(path, rows);
    return path;
  }

  void SetUp() override { write_file(profile_, device_profile_text(made_up_profile())); }

  std::string folder_ = fresh_folder("forecast"), profile_ = folder_ + "/profile.json";
};

TEST_F(PlanForecast, FitsAllExperts) {
  const json whole = forecast({});
  EXPECT_EQ(whole["machine"], "cpu with 2 threads (AVX2)");
  EXPECT_EQ(whole["capacity"], kExperts);
  EXPECT_EQ(whole["largest_capacity"], kExperts);
  EXPECT_EQ(whole["filled"], whole["context"].get<int64_t>() / 2);
  EXPECT_EQ(whole["memory"]["budget_bytes"], 8'000'000'000);
  EXPECT_EQ(whole["memory"]["fits"], true);
  EXPECT_EQ(whole["decode"]["read_seconds"], 0);
  EXPECT_GT(whole["decode"]["tokens_per_second"], 0);
  EXPECT_THAT(plan({}).out, AllOf(HasSubstr("all 16 of a layer in memory"),
                                  HasSubstr("fits in 8.0 GB: yes, 8.0 GB free at context 512; "
                                            "about "),
                                  HasSubstr(" tokens/s\n")));
}

TEST_F(PlanForecast, HalvesF16Caches) {
  const json f32 = forecast({})["memory"], f16 = forecast({"--cache-dtype", "f16"})["memory"];
  EXPECT_EQ(2 * f16["cache_bytes"].get<int64_t>(), f32["cache_bytes"].get<int64_t>());
}

TEST_F(PlanForecast, AddsUpTheParts) {
  const json decode = forecast({})["decode"];
  const double parts = decode["products_seconds"].get<double>() +
                       decode["attention_seconds"].get<double>() +
                       decode["elements_seconds"].get<double>() +
                       decode["ops_seconds"].get<double>() + decode["read_seconds"].get<double>();
  EXPECT_DOUBLE_EQ(decode["seconds_per_token"].get<double>(), parts);
  EXPECT_DOUBLE_EQ(decode["tokens_per_second"].get<double>(), 1 / parts);
}

// Each weight takes 1 ns as f32: all trunk matrices, and the chosen experts.
TEST_F(PlanForecast, PricesTheWeightsOfAToken) {
  constexpr double kAttention = 128 * 128 + 2 * 64 * 128 + 128 * 128, kRouter = 16 * 128;
  constexpr double kExpert = 3 * 128 * 80, kHead = 256 * 128;
  constexpr double kWeights = kLayers * (kAttention + kRouter + kChosen * kExpert) + kHead;
  const json decode = forecast({"--dtype", "f32"})["decode"];
  EXPECT_NEAR(decode["products_seconds"].get<double>(), kWeights * 1e-9, 0.02 * kWeights * 1e-9);
}

TEST_F(PlanForecast, SlowsDownWithTheContext) {
  const json few = forecast({"--filled", "16"})["decode"];
  const json many = forecast({"--filled", "496"})["decode"];
  EXPECT_GT(many["attention_seconds"].get<double>(), 10 * few["attention_seconds"].get<double>());
  EXPECT_EQ(many["products_seconds"], few["products_seconds"]);
}

TEST_F(PlanForecast, UsesTheWidestGraphForPrompts) {
  const json wide = forecast({"--tokens", "1,64"});
  EXPECT_EQ(wide["decode"]["width"], 1);
  EXPECT_EQ(wide["prefill"]["width"], 64);
  EXPECT_LT(wide["prefill"]["ops_seconds"].get<double>(),
            wide["decode"]["ops_seconds"].get<double>());
}

// A run of a wide graph decodes one token; the rest of the width is padding.
TEST_F(PlanForecast, DecodesOneTokenPerRun) {
  const json narrow = forecast({"--tokens", "1"})["decode"];
  const json wide = forecast({"--tokens", "16"})["decode"];
  EXPECT_EQ(wide["width"], 16);
  EXPECT_EQ(wide["used"], 1);
  EXPECT_GE(wide["seconds_per_token"].get<double>(), narrow["seconds_per_token"].get<double>());
  // All columns of the width take time, except in the experts that a column did not choose.
  EXPECT_GT(wide["products_seconds"].get<double>(), 4 * narrow["products_seconds"].get<double>());
}

const Words kPaged = {"--routing", "host", "--experts-per-shard", "1"};

Words paged(Words more) {
  more.insert(more.end(), kPaged.begin(), kPaged.end());
  return more;
}

TEST_F(PlanForecast, ReadsMissingExperts) {
  const json some = forecast(paged({"--capacity", "4"}));
  EXPECT_EQ(some["capacity"], 4);
  EXPECT_DOUBLE_EQ(some["decode"]["miss_rate"].get<double>(), 0.75);
  const auto expert = some["expert_size"].get<double>();
  EXPECT_NEAR(some["decode"]["read_seconds"].get<double>(), kLayers * kChosen * 0.75 * expert / 1e9,
              1e-12);
  EXPECT_EQ(some["memory"]["expert_bytes"].get<double>(), kLayers * 4 * expert);
  EXPECT_THAT(plan(paged({"--capacity", "4"})).out,
              HasSubstr("4 of 16 per layer in slots, at most 16 fit; 25 % of the choices hit, if"));
}

// The padding of a run chooses no experts, so it reads none.
TEST_F(PlanForecast, ReadsNoExpertsForPadding) {
  const json short_prompt =
      forecast(paged({"--tokens", "16,64", "--filled", "8", "--capacity", "4"}));
  EXPECT_EQ(short_prompt["prefill"]["used"], 8);
  const auto expert = short_prompt["expert_size"].get<double>();
  const double token = kLayers * 0.75 * expert / 1e9;  // if it chooses one expert per layer
  EXPECT_NEAR(short_prompt["decode"]["read_seconds"].get<double>(), token * kChosen, 1e-12);
  EXPECT_NEAR(short_prompt["prefill"]["read_seconds"].get<double>(),
              token * distinct_experts(8, kChosen, kExperts) / 8, 1e-12);
}

TEST_F(PlanForecast, ChoosesTheLargestCapacity) {
  const json whole = forecast(kPaged);
  const auto expert = whole["expert_size"].get<int64_t>();
  const int64_t base = whole["memory"]["needed_bytes"].get<int64_t>() -
                       whole["memory"]["expert_bytes"].get<int64_t>();
  const json less =
      forecast(paged({"--resident-budget", std::to_string(base + kLayers * (5 * expert + 1))}));
  EXPECT_EQ(less["capacity"], 5);
  EXPECT_EQ(less["largest_capacity"], 5);
  EXPECT_EQ(less["memory"]["fits"], true);
}

TEST_F(PlanForecast, ReportsMissingMemory) {
  const Outcome outcome = plan({"--resident-budget", "1000"});
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_THAT(outcome.out, HasSubstr("fits in 1.0 kB: no, "));
  EXPECT_THAT(outcome.out, HasSubstr(" missing at context 512\n"));
}

// Of four tokens, only the first one misses, also if a run pads each of them.
TEST_F(PlanForecast, TakesHitsFromATrace) {
  for (const char* widths : {"1", "4"}) {
    const json traced =
        forecast(paged({"--tokens", widths, "--capacity", "4", "--trace", trace(kLayers, 4)}));
    EXPECT_EQ(traced["from_trace"], true);
    EXPECT_DOUBLE_EQ(traced["decode"]["miss_rate"].get<double>(), 0.25) << widths;
  }
}

TEST_F(PlanForecast, RejectsBadOptions) {
  const auto error = [&](Words more) {
    const Outcome outcome = plan(std::move(more));
    EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.out;
    return outcome.err;
  };
  EXPECT_THAT(error({"--capacity", "4"}),
              AllOf(HasSubstr("[forecast.capacity]"), HasSubstr("--routing host")));
  EXPECT_THAT(error(paged({"--capacity", "17"})), HasSubstr("[forecast.capacity]"));
  EXPECT_THAT(error({"--filled", "512"}), HasSubstr("[forecast.filled]"));
  write_file(profile_, "{}");
  EXPECT_THAT(error({}), AllOf(HasSubstr("[device_profile.missing_field]"), HasSubstr(profile_)));
  EXPECT_EQ(run_command({"plan", checkpoint_of("tinymoe"), "--capacity", "4"}).exit_code,
            kExitBadInput);
}

TEST_F(PlanForecast, RejectsTracesOfOtherModels) {
  const auto error = [&](const std::string& file) { return plan(paged({"--trace", file})).err; };
  EXPECT_THAT(error(trace(kLayers, 2, 1)),
              AllOf(HasSubstr("[forecast.trace]"), HasSubstr("experts of layer 4, which is not")));
  EXPECT_THAT(error(trace(kLayers - 1, 2)),
              AllOf(HasSubstr("[forecast.trace]"), HasSubstr("no experts of layer 3, which is")));
  write_file(folder_ + "/other.csv", "layer,token,expert,weight\n0,0,16,1\n");
  EXPECT_THAT(error(folder_ + "/other.csv"),
              AllOf(HasSubstr("[forecast.trace]"), HasSubstr("has expert 16, but a layer of the")));
}

TEST_F(PlanForecast, RejectsSlotsOfDenseModels) {
  const Outcome outcome = run_command(
      {"plan", checkpoint_of("llama_a"), "--device-profile", profile_, "--capacity", "4"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.out;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("[forecast.capacity]"), HasSubstr("the model is dense")));
}

TEST_F(PlanForecast, NamesUnmeasuredForms) {
  DeviceProfile profile = made_up_profile();
  profile.forms.resize(1);  // f32 only
  write_file(profile_, device_profile_text(profile));
  const Outcome outcome = plan({"--weights", "int8"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("[forecast.form]"), HasSubstr("moec doctor")));
}

}  // namespace
}  // namespace moec
