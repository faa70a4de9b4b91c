// moec plan: published models, budgets, printed output, and errors for bad input.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "backends/manifest/manifest_file.h"
#include "models/published/published.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/manifest_forms.h"
#include "tests/frontends/cli/read_json.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::_;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;

Outcome plan(const std::string& source, Words more = {}) {
  more.insert(more.begin(), {"plan", source});
  return run_command(more);
}

json plan_json(const std::string& source, Words more, int exit_code = kExitFine) {
  more.emplace_back("--json");
  const Outcome outcome = plan(source, std::move(more));
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
  return json::parse(outcome.out);
}

TEST(Plan, ListsThePublishedModels) {
  const Outcome outcome = run_command({"plan", "--list"});
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_THAT(outcome.out, HasSubstr("qwen3-30b-a3b"));
  EXPECT_THAT(outcome.out, HasSubstr("30532122624"));
  EXPECT_THAT(outcome.out,
              HasSubstr("poolside/laguna-XS.2 (config: defaults of transformers 5.24)"));
}

TEST(Plan, ListsTheParameterCountsOfPlans) {
  const json list = json::parse(run_command({"plan", "--list", "--json"}).out);
  ASSERT_FALSE(list.at("models").empty());
  for (const json& model : list.at("models")) {
    EXPECT_TRUE(model["parameters"].is_number_integer()) << model;
    EXPECT_EQ(model["config"], model["name"] == "ling-3.0-flash"  ? "defaults of transformers 5.24"
                               : model["name"] == "qwen3-30b-a3b" ? "release"
                                                                  : model["config"]);
    if (model["name"] == "hunyuan-a13b" || model["name"] == "zaya-book") {
      EXPECT_EQ(model["parameters"], plan_json(model["name"], {})["parameters"]);
    }
  }
}

// 92 layers of 896 experts, each 3 · 3584 · 3072: 2,722.7 billion parameters.
TEST(Plan, SizesModelsThatItCannotExport) {
  const json planned = plan_json("kimi-k3", {});
  EXPECT_GT(planned["parameters"].get<int64_t>(), 2'722'700'000'000);
  EXPECT_LT(planned["parameters"].get<int64_t>(), 2'790'000'000'000);
  EXPECT_THAT(plan("kimi-k3", {}).out + plan("kimi-k3", {}).err,
              HasSubstr("moec export refuses this model"));
  const std::string config = fresh_folder("kimi_k3") + "/config.json";
  std::ofstream(config) << (*find_published("kimi-k3"))->config;
  const Outcome refused =
      run_command({"export", config, "--seeded-weights", "1", "--out", fresh_folder("refused")});
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr("hf.family.plan_only"));
}

TEST(Plan, PrintsTheSizeOfACalibration) {
  const std::string source = checkpoint_of("tinymoe");
  const json planned = plan_json(source, {"--calibration"});
  EXPECT_EQ(planned["calibration_bytes"], 1783168);
  EXPECT_EQ(plan_json(source, {})["calibration_bytes"], nullptr);
  EXPECT_THAT(plan(source, {"--calibration", "--tokens", "1"}).out,
              HasSubstr("calibration: moec calibrate writes up to 1.8 MB\n"));
  EXPECT_THAT(run_command({"plan", "--calibration", source}).err, HasSubstr("SOURCE before"));
  EXPECT_THAT(plan("qwen3-30b-a3b", {"--calibration"}).out, HasSubstr("writes up to 30.9 GB\n"));
}

TEST(Plan, PrintsSmallSizesInBytes) {
  const std::string out =
      plan(checkpoint_of("mixtral_a"), {"--max-shard-mb", "attn=0.00002,lm_head=0.05"}).out;
  EXPECT_THAT(out, AllOf(HasSubstr(" 20 B "), HasSubstr(" 50.0 kB ")));
  EXPECT_THAT(out, testing::Not(HasSubstr(" 0.0 ")));
}

// Qwen3-30B-A3B in shards of 200 MB: 4 groups of 32 experts as int8.
TEST(Plan, GroupsQwen3Into200Megabytes) {
  const json int8 = plan_json("qwen3-30b-a3b", {"--max-shard-mb", "moe=200", "--weights", "int8"});
  EXPECT_EQ(int8["parameters"], 30532122624);
  EXPECT_EQ(int8["expert_groups"], json({32, 32, 32, 32}));
  const int64_t expert = 3 * 2048 * 768 + 4 * (768 + 768 + 2048);  // codes and scales
  EXPECT_EQ(int8["expert_bytes"], expert);
  EXPECT_EQ(int8["shards"][2]["kind"], "experts");
  EXPECT_EQ(int8["shards"][2]["shards"], 4 * 48);
  EXPECT_EQ(int8["shards"][2]["largest_bytes"], 32 * expert + 4 * 2048) << "plus a norm";
  const json f16 = plan_json("qwen3-30b-a3b", {"--target", "ane"});
  EXPECT_EQ(f16["expert_groups"], json({19, 19, 18, 18, 18, 18, 18}));
  EXPECT_THAT(f16["cuts"][0]["reason"].get<std::string>(), HasSubstr("a budget of 200.0 MB"));
}

TEST(Plan, CountsStoredBytesPerGroup) {
  const json plain = plan_json("qwen3-30b-a3b", {"--target", "ane", "--max-shard-mb", "none"});
  const json lut = plan_json("qwen3-30b-a3b",
                             {"--target", "ane", "--max-shard-mb", "none", "--weights", "4bit"});
  EXPECT_EQ(lut["weights"], "4bit");
  EXPECT_EQ(plain["weights"], "float");
  const int64_t weights = 3 * 2048 * 768, rows = 768 + 768 + 2048;
  EXPECT_EQ(lut["expert_bytes"], weights / 2 + rows / 16 * 16 * 2);
  // The head is int8 with a two-byte scale per row; the norm of each slice is float.
  EXPECT_EQ(lut["memory"]["head_bytes"], 151936 * (2048 + 2) + 3 * 2 * 2048);
  EXPECT_LT(
      lut["memory"]["total_bytes"].get<int64_t>() - lut["memory"]["kv_cache_bytes"].get<int64_t>(),
      17'500'000'000);
  EXPECT_EQ(lut["memory"]["kv_cache_bytes"], plain["memory"]["kv_cache_bytes"]);
}

// If layers differ, the slot size is the size of the largest expert.
TEST(Plan, CountsBytesOfMixedForms) {
  const json mixed = plan_json("olmoe-1b-7b", {"--weights", "int8,experts@0-3=float"});
  EXPECT_EQ(mixed["expert_bytes"], 4 * 3 * 2048 * 1024);
  const int64_t coded = 3 * 2048 * 1024 + 4 * (1024 + 1024 + 2048);
  EXPECT_EQ(mixed["memory"]["expert_bytes"], 64 * (4 * int64_t{4} * 3 * 2048 * 1024 + 12 * coded));
}

TEST(Plan, RejectsFormsUnsupportedByTheTarget) {
  const auto refusal = [](Words more) { return plan("olmoe-1b-7b", std::move(more)).err; };
  EXPECT_THAT(refusal({"--weights", "int4", "--form", "conv"}),
              AllOf(HasSubstr("weights.form"),
                    HasSubstr("convolutions have no kernel for blockwise weights"),
                    HasSubstr("int4:32 needs --form matmul")));
  EXPECT_THAT(refusal({"--weights", "int8:64", "--form", "conv"}),
              AllOf(HasSubstr("weights.form"), HasSubstr("int8:64 needs --form matmul")));
  EXPECT_THAT(refusal({"--weights", "int4", "--target", "ane"}),
              AllOf(HasSubstr("weights.form"), HasSubstr("int4-lut:g*"), HasSubstr("0.367")));
  EXPECT_THAT(refusal({"--weights", "int4-lut"}), HasSubstr("folds a Gather from a table to f32"));
  EXPECT_THAT(refusal({"--weights", "int8:expert"}), HasSubstr("float, int8, int8:tensor"));
  EXPECT_THAT(refusal({"--weights", "int4", "--layout", "bc1s"}), HasSubstr("--form matmul"));
  EXPECT_THAT(refusal({"--weights", "experts@3-16=int8"}), HasSubstr("layers 0 to 15"));
  EXPECT_THAT(refusal({"--weights", "router=f16"}), HasSubstr("--dtype f16"));
  EXPECT_THAT(refusal({"--weights", "embed=int8"}), HasSubstr("weights.embed"));
  EXPECT_THAT(refusal({"--weights", "copy"}),
              AllOf(HasSubstr("weights.copy"), HasSubstr("not codes")));
  EXPECT_THAT(refusal({"--weights", "experts=int4-lut:g24", "--target", "ane"}),
              AllOf(HasSubstr("weights.group"), HasSubstr("1, 2, 4, 8, 16, 32, 64")));
}

// plan --compat rejects and splits in the same way as export.
TEST(Plan, RejectsFeaturesUnsupportedByAneBook) {
  const auto refusal = [](const std::string& model, Words more) {
    more.insert(more.end(), {"--compat", "ane-book"});
    return plan(checkpoint_of(model), std::move(more)).err;
  };
  EXPECT_THAT(refusal("mixtral_a", {}),
              AllOf(HasSubstr("compat.ane_book"), HasSubstr("--target ane")));
  EXPECT_THAT(refusal("qwen2_moe_b", {"--target", "ane"}),
              AllOf(HasSubstr("compat.ane_book"), HasSubstr("dense layers")));
  EXPECT_THAT(refusal("mixtral_a", {"--target", "ane", "--tokens", "1,16"}),
              AllOf(HasSubstr("compat.ane_book"), HasSubstr("--widths range")));
  EXPECT_THAT(refusal("mixtral_a", {"--target", "ane", "--tokens", "1,16", "--widths", "range"}),
              Not(HasSubstr("compat.ane_book")));
  EXPECT_THAT(plan("mixtral-8x7b", {"--widths", "range"}).err, HasSubstr("--compat"));
  EXPECT_THAT(plan("mixtral-8x7b", {"--compat", "genai"}).err, HasSubstr("compat.genai"));
}

TEST(Plan, SlicesTheHeadForAneBook) {
  const std::string source = checkpoint_of("mixtral_a");
  const auto heads = [&](const Words& words) {
    const json planned = plan_json(source, words);
    for (const json& kind : planned["shards"])
      if (kind["kind"] == "lm_head") return kind["shards"].get<int>();
    return 0;
  };
  EXPECT_EQ(heads({"--target", "ane"}), 1);
  EXPECT_EQ(heads({"--target", "ane", "--compat", "ane-book"}), 2);
}

TEST(Plan, ReportsTheApplicableRotaryFactors) {
  EXPECT_EQ(plan_json("phi-3.5-moe", {"--context", "4096"})["rope_factors"], "short");
  EXPECT_EQ(plan_json("phi-3.5-moe", {"--context", "4097"})["rope_factors"], "long");
  EXPECT_THAT(plan("phi-3.5-moe", {"--context", "8192"}).out,
              HasSubstr("rotation: long factors (a context above 4096 positions)"));
  EXPECT_FALSE(plan_json("olmoe-1b-7b", {}).contains("rope_factors"));
}

TEST(Plan, SumsMemoryAndCost) {
  const json report = plan_json("olmoe-1b-7b", {"--dtype", "f16", "--context", "1024"});
  const json& memory = report["memory"];
  // Two bytes per weight and four in routers and their norms; the final norm belongs to the head.
  const int64_t routers = int64_t{16} * (64 + 1) * 2048;
  EXPECT_EQ(memory["trunk_bytes"].get<int64_t>() + memory["expert_bytes"].get<int64_t>() +
                memory["embedding_bytes"].get<int64_t>(),
            2 * (report["parameters"].get<int64_t>() + routers));
  EXPECT_EQ(memory["kv_cache_bytes"], int64_t{16} * 2 * 2048 * 1024 * 2);
  EXPECT_EQ(memory["rope_bytes"], 1024 * 128 * 2);
  EXPECT_EQ(memory["expert_bytes"], int64_t{16} * 64 * 3 * 2048 * 1024 * 2);
  const json& token = report["token"];
  EXPECT_EQ(token["dense_static"]["bytes"],
            memory["trunk_bytes"].get<int64_t>() + memory["expert_bytes"].get<int64_t>());
  // A single shard per layer cannot be skipped. A sparse runtime reads 8 of 64 experts.
  EXPECT_EQ(token["host_routed"], token["dense_static"]);
  EXPECT_EQ(token["ideal_sparse"]["bytes"],
            memory["trunk_bytes"].get<int64_t>() + memory["expert_bytes"].get<int64_t>() / 8);
}

// Includes routers, which are stored in f32 for onnx and additionally in f16 for ane. The routers'
// inputs are an RMS norm, a layer norm, and a router layer.
TEST(Plan, CountsTheBytesOfAnExport) {
  for (const char* name : {"glm4_moe_a", "phimoe_a", "zaya_a"})
    for (const char* target : {"onnx", "ane"}) {
      const std::string folder = checkpoint_of(name), out = fresh_folder("out");
      const Words form = {"--target", target, "--dtype", "f16", "--tokens", "1"};
      Words words = {"export", folder, "--out", out, "--quiet"};
      words.insert(words.end(), form.begin(), form.end());
      expect_fine(run_command(words));
      int64_t written = 0;
      const json manifest = read_json(out + "/manifest.json");
      for (const json& shard : manifest["shards"]) written += shard["weight_bytes"].get<int64_t>();
      const json memory = plan_json(folder, form)["memory"];
      EXPECT_EQ(memory["trunk_bytes"].get<int64_t>() + memory["expert_bytes"].get<int64_t>(),
                written)
          << name << ", " << target;
    }
}

TEST(Plan, OrdersCostsByRouting) {
  const json token = plan_json("olmoe-1b-7b", {"--experts-per-shard", "4"})["token"];
  const auto bytes = [&](const char* form) { return token[form]["bytes"].get<double>(); };
  EXPECT_LT(bytes("ideal_sparse"), bytes("host_routed"));
  EXPECT_LT(bytes("host_routed"), bytes("dense_static"));
  const json single = plan_json("olmoe-1b-7b", {"--experts-per-shard", "1"})["token"];
  EXPECT_NEAR(single["host_routed"]["macs"].get<double>(),
              single["ideal_sparse"]["macs"].get<double>(), 16);
}

TEST(Plan, PlansFolderAndConfigEqually) {
  const json folder = plan_json(checkpoint_of("tinymoe"), {});
  json config = plan_json(checkpoint_of("tinymoe") + "/config.json", {});
  config["source"] = folder["source"];
  EXPECT_EQ(folder, config);
}

TEST(Plan, ReportsTheStorageOfMatrices) {
  EXPECT_EQ(plan_json("olmoe-1b-7b", {})["stored_as"], "plain");
  EXPECT_EQ(plan_json("deepseek-v3", {})["stored_as"], "fp8_blocks");
  EXPECT_THAT(plan("deepseek-v3").out, HasSubstr("stores matrices as fp8_blocks of 128 x 128"));
  EXPECT_THAT(plan("gpt-oss-20b").out, HasSubstr("as mxfp4; an export dequantizes them"));
}

class PublishedPlan : public testing::TestWithParam<std::string> {};

TEST_P(PublishedPlan, FitsTheNeuralEngine) {
  const Outcome outcome = plan(GetParam(), {"--target", "ane"});
  EXPECT_EQ(outcome.exit_code, kExitFine) << outcome.err;
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("OVER")));
}

std::vector<std::string> published_names() {
  std::vector<std::string> names;
  for (const PublishedModel& model : published_models()) names.push_back(model.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, PublishedPlan, testing::ValuesIn(published_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

TEST(Plan, ExpandsLatentAttentionToFit) {
  const Outcome chosen = plan("deepseek-v3", {"--target", "ane"});
  EXPECT_EQ(chosen.exit_code, kExitFine);
  EXPECT_THAT(chosen.err, AllOf(HasSubstr("note[plan.mla_form]"), HasSubstr("--mla expanded")));
  EXPECT_THAT(plan("kimi-k2", {"--target", "ane"}).err, testing::Not(HasSubstr("plan.mla_form")));
  EXPECT_EQ(plan("deepseek-v3", {"--target", "ane", "--mla", "latent"}).exit_code, kExitBadInput);
}

TEST(Plan, SlicesExpertsAboveTheBudget) {
  const json report = plan_json("mixtral-8x7b", {"--target", "ane"});
  EXPECT_EQ(report["expert_groups"], json(std::vector<int>(8, 1)));
  EXPECT_EQ(report["expert_slices"], 2);
  EXPECT_EQ(report["shards"][2]["shards"], 32 * 8 * 2);
  EXPECT_EQ(report["shards"][2]["largest_bytes"], (3 * 4096 * 7168 + 4096) * 2);
  EXPECT_EQ(report["memory"]["expert_bytes"], int64_t{32} * 8 * 3 * 4096 * 14336 * 2);
  EXPECT_THAT(plan("mixtral-8x7b", {"--target", "ane"}).out, HasSubstr("each in 2 slices"));
  EXPECT_THAT(plan("glm-4.5", {"--target", "ane"}).out,
              HasSubstr("MLP of a dense layer: 2 slices"));
  EXPECT_THAT(plan("qwen2-57b-a14b", {"--target", "ane"}).out,
              HasSubstr("shared expert of a layer: 3 slices"));
}

TEST(Plan, ExplainsAShardAboveItsBudget) {
  const Words over = {"--max-shard-mb", "attn=0.02,lm_head=0.01", "--head-slices", "1"};
  const std::string model = checkpoint_of("mixtral_a");
  const Outcome outcome = plan(model, over);
  EXPECT_EQ(outcome.exit_code, kExitFellShort);
  EXPECT_THAT(outcome.out, HasSubstr("OVER"));
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("error[plan.over_budget] shard L00.attn: 2 of 2 shards "
                              "of kind attention exceed the budget of 20.0 kB"),
                    HasSubstr("error[plan.over_budget] shard lm_head.0"), HasSubstr("next: ")));
  const json report = plan_json(model, over, kExitFellShort);
  EXPECT_EQ(report["ok"], false);
  ASSERT_EQ(report["diagnostics"].size(), 2u);
  EXPECT_EQ(report["diagnostics"][0]["code"], "plan.over_budget");
  EXPECT_EQ(report["diagnostics"][0]["place"]["shard"], "L00.attn");
  EXPECT_THAT(report["diagnostics"][0]["next_step"].get<std::string>(), HasSubstr("attn=0.025"));
}

TEST(Plan, AllowsOverBudgetShardsOnRequest) {
  const Words over = {"--max-shard-mb", "attn=0.02", "--allow-over-budget"};
  const Outcome outcome = plan(checkpoint_of("mixtral_a"), over);
  EXPECT_EQ(outcome.exit_code, kExitFine);
  EXPECT_THAT(outcome.err, HasSubstr("warning[plan.over_budget]"));
  EXPECT_EQ(plan_json(checkpoint_of("mixtral_a"), over)["ok"], true);
  EXPECT_EQ(plan("mixtral-8x22b", {"--target", "ane", "--max-shard-mb", "none"}).exit_code,
            kExitFine);
}

TEST(Plan, AssignsEachShardToOneDevice) {
  const json devices = plan_json("olmoe-1b-7b", {"--dtype", "f16", "--device", "a=10GB", "--device",
                                                 "b=10GB,100GB"})["devices"];
  ASSERT_EQ(devices.size(), 2u);
  std::set<std::string> shards;
  size_t held = 0;
  for (const json& device : devices) {
    EXPECT_LE(device["used_bytes"].get<int64_t>() + device["peak_activation_bytes"].get<int64_t>(),
              device["bytes"].get<int64_t>());
    for (const json& shard : device["shards"]) shards.insert(shard.get<std::string>());
    held += device["shards"].size();
  }
  EXPECT_EQ(held, 1u + 16 * 2 + 1);
  EXPECT_EQ(shards.size(), held);
}

TEST(Plan, FitsResidentExpertsIntoTheBudget) {
  const json set = plan_json("olmoe-1b-7b", {"--weights", "experts=int4:64:zero", "--dtype", "f16",
                                             "--resident-budget", "3GB"})["resident"];
  // Half a byte per weight; per 64 weights a two-byte scale and a half-byte zero point.
  EXPECT_EQ(set["slot_bytes"], 3 * 2048 * 1024 * 69 / 128);
  const int64_t capacity = set["capacity"], each = 16 * set["slot_bytes"].get<int64_t>();
  EXPECT_LE(set["base_bytes"].get<int64_t>() + capacity * each, 3'000'000'000);
  EXPECT_GT(set["base_bytes"].get<int64_t>() + (capacity + 1) * each, 3'000'000'000);
  EXPECT_EQ(plan_json("olmoe-1b-7b", {"--working-set", "10GB"})["resident"]["budget_bytes"],
            7'100'000'000);
}

// Each expert has load 1, except expert 0 of each layer, whose load equals that of OLMoE's other
// experts combined.
std::string loads_of(int layers, int experts) {
  std::string file = fresh_folder("loads") + "/loads.csv";
  std::ofstream loads(file);
  loads << "layer,expert,load\n";
  for (int layer = 0; layer < layers; ++layer)
    for (int e = 0; e < experts; ++e)
      loads << layer << "," << e << "," << (e == 0 ? 64 : 1) << "\n";
  return file;
}

TEST(Plan, BalancesDevicesByCopies) {
  const Words devices = {"--dtype",  "f16",   "--device", "a=9GB",
                         "--device", "b=9GB", "--loads",  loads_of(16, 64)};
  const json plain = plan_json("olmoe-1b-7b", devices)["replicas"];
  EXPECT_EQ(plain["groups"], 64);
  EXPECT_EQ(plain["replicas"], 64);
  Words more = devices;
  more.insert(more.end(), {"--replicas", "66"});
  const json copied = plan_json("olmoe-1b-7b", more);
  EXPECT_LT(copied["replicas"]["worst_imbalance"], plain["worst_imbalance"]);
  EXPECT_EQ(copied["replicas"]["layers"].size(), 16u);
  EXPECT_EQ(copied["replicas"]["layers"][3]["group_of_slot"].size(), 66u);
  for (const json& device : copied["devices"])
    EXPECT_THAT(device["shards"].dump(), HasSubstr("\"L03.moe.expert0\""));
}

TEST(Plan, CopiesGroupsOfCutLayers) {
  const json report = plan_json(
      "olmoe-1b-7b", {"--dtype", "f16", "--experts-per-shard", "16", "--device", "a=12GB",
                      "--device", "b=12GB", "--loads", loads_of(16, 64), "--replicas", "6"});
  EXPECT_EQ(report["replicas"]["groups"], 4);
  for (const json& device : report["devices"])
    EXPECT_THAT(device["shards"].dump(), HasSubstr("\"L03.moe.g0\""));
}

// ---- Devices of an export ----------------------------------------------------------------------

class ExportToDevices : public testing::Test {
 protected:
  Outcome run(Words more) {
    more.insert(more.begin(), {"--device", "a=1GB", "--device", "b=1GB"});
    return export_case("tinymoe", out_, more);
  }
  // Counts how many devices hold each shard.
  std::map<std::string, int> holders() const {
    std::map<std::string, int> held;
    const json manifest = read_json(out_ + "/manifest.json");
    for (const json& device : manifest["devices"])
      for (const json& shard : device["shards"]) ++held[shard["shard"]];
    return held;
  }
  std::string out_ = fresh_folder("out") + "/out";
};

TEST_F(ExportToDevices, PlacesEachShardOnOneDevice) {
  expect_fine(run({}));
  EXPECT_THAT(holders(), AllOf(SizeIs(4 * 2 + 1), Each(Pair(_, 1))));
  expect_fine(run_command({"check", out_}));
}

TEST_F(ExportToDevices, DeclaresReplicasOfBusyGroups) {
  expect_fine(run({"--experts-per-shard", "4", "--loads", loads_of(4, 16), "--replicas", "6"}));
  const std::map<std::string, int> held = holders();
  EXPECT_EQ(held.at("L02.attn"), 2);
  EXPECT_EQ(held.at("L02.moe.g0"), 2);
  EXPECT_EQ(held.at("L02.moe.g1") + held.at("L02.moe.g2") + held.at("L02.moe.g3"), 3);
  expect_fine(run_command({"check", out_}));
  expect_fine(validate_case("tinymoe", out_));
}

TEST_F(ExportToDevices, CheckFindsAnUnassignedShard) {
  expect_fine(run({}));
  Manifest manifest = read_manifest(out_).value();
  manifest.devices[1].shards.pop_back();
  write_both_forms(std::move(manifest), out_);
  const Outcome outcome = run_command({"check", out_});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.out + outcome.err, HasSubstr("no device holds the shard"));
}

TEST_F(ExportToDevices, RejectsCopiesOfWholeLayers) {
  const Outcome outcome = run({"--loads", loads_of(4, 16)});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("error[plan.replicas]"), HasSubstr("--experts-per-shard")));
}

TEST_F(ExportToDevices, NamesTheFileOfInvalidCounts) {
  const std::string loads = loads_of(4, 16);
  const Outcome outcome = run({"--experts-per-shard", "4", "--loads", loads, "--replicas", "7"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("error[balance.counts] " + loads + ": 7 replicas"));
}

TEST_F(ExportToDevices, RejectsSmallDevicesBeforeWriting) {
  const Outcome outcome = export_case("tinymoe", out_, {"--device", "a=1MB"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("error[plan.devices]"));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

struct Refused {
  const char* name;
  Words words;
  Words message;  // the code, then other required substrings
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

class BadPlan : public testing::TestWithParam<Refused> {};

TEST_P(BadPlan, IsRejectedWithItsCode) {
  Words words = GetParam().words;
  words.insert(words.begin(), "plan");
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.out;
  for (const std::string& part : GetParam().message) EXPECT_THAT(outcome.err, HasSubstr(part));
  EXPECT_THAT(outcome.err, HasSubstr("next: "));
}

std::vector<Refused> refusals() {
  const std::string model = "olmoe-1b-7b";
  return {
      {"no_source", {}, {"error[plan.source]", "--list"}},
      {"unknown_model", {"olmoe-1b-8b"}, {"error[published.unknown]", model}},
      {"budget_below_a_slice",
       {model, "--max-shard-mb", "moe=0.1", "--dtype", "f16"},
       {"error[plan.budget]", "the smallest slice of an expert of 204.8 kB", "0.205 MB"}},
      {"unknown_kind", {model, "--max-shard-mb", "mor=5"}, {"error[plan.budget_kind]", "moe"}},
      {"kind_twice", {model, "--max-shard-mb", "moe=5,moe=6"}, {"error[plan.budget_kind]"}},
      {"budget_below_a_byte",
       {model, "--max-shard-mb", "1e-9"},
       {"error[plan.budget_value]", "at least 0.000001"}},
      {"budget_zero", {model, "--max-shard-mb", "0"}, {"error[plan.budget_value]"}},
      {"budget_infinite", {model, "--max-shard-mb", "moe=inf"}, {"error[plan.budget_value]"}},
      {"budget_not_a_number", {model, "--max-shard-mb", "nan"}, {"error[plan.budget_value]"}},
      {"budget_negative", {model, "--max-shard-mb=-3"}, {"error[plan.budget_value]"}},
      {"unknown_target", {model, "--target", "anne"}, {"error[target.unknown]", "ane"}},
      {"device_twice",
       {model, "--device", "a=1GB", "--device", "a=2GB"},
       {"error[plan.device_twice]", "\"a\""}},
      {"device_without_bytes", {model, "--device", "a"}, {"error[plan.device_value]"}},
      {"device_infinite", {model, "--device", "a=inf"}, {"error[plan.device_value]"}},
      {"bandwidth_negative", {model, "--device", "a=1GB,-2"}, {"error[plan.device_value]"}},
      {"devices_too_small",
       {model, "--device", "a=1GB", "--device", "b=2GB"},
       {"error[plan.devices]", "device b lacks", "add a device of"}},
      {"trunk_too_large",
       {model, "--trunk", "replicated", "--device", "a=100MB"},
       {"error[plan.devices]", "device a lacks", "the trunk needs", "--experts-per-shard"}},
      {"trunk_without_experts_too_large",
       {model, "--trunk", "replicated", "--device", "a=100MB", "--experts-per-shard", "8"},
       {"error[plan.devices]", "next: give the device 2.5 GB, or pass --trunk layers"}},
      {"more_experts_a_group_than_there_are",
       {model, "--experts-per-shard", "99"},
       {"error[plan.experts_per_shard]", "99", "choose 1 to 64"}},
      {"resident_budget_negative",
       {model, "--resident-budget=-1GB"},
       {"error[cli.bytes]", "--resident-budget"}},
      {"loads_without_devices", {model, "--loads", "x.csv"}, {"error[plan.device_value]"}},
      {"loads_file_missing",
       {model, "--device", "a=99GB", "--loads", "none.csv"},
       {"error[loads.file]", "none.csv"}},
      {"context_too_long",
       {model, "--context", "9999"},
       {"error[plan.context] " + model + ":", "4096"}},
  };
}

INSTANTIATE_TEST_SUITE_P(All, BadPlan, testing::ValuesIn(refusals()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace moec
