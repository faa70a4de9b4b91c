// Top-k variants: each one matches transformers with the same number of experts, all variants share
// one weight file, and runs select a variant by flag or policy.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A variant of a checkpoint and its golden case. An empty `form` means the checkpoint's own top-k.
struct GoldenForm {
  const char* form;
  const char* golden;
};

struct FormCase {
  const char* checkpoint;
  const char* top_k;
  std::vector<GoldenForm> forms;
};

const std::vector<FormCase> kFormCases = {
    {"mixtral_a",
     "1,2,3,L0:1;L1-:3",
     {{"2", ""},
      {"1", "mixtral_a_k1"},
      {"3", "mixtral_a_k3"},
      {"L0:1;L1:3", "mixtral_a_by_layer"}}},
    {"qwen2_moe_a", "1,3,4", {{"3", ""}, {"1", "qwen2_moe_a_k1"}, {"4", "qwen2_moe_a_k4"}}},
    {"deepseek_v3_a",
     "1,3,5,L1:1;L2:4",
     {{"3", ""},
      {"1", "deepseek_v3_a_k1"},
      {"5", "deepseek_v3_a_k5"},
      {"*:4;L1:1", "deepseek_v3_a_by_layer"}}},
    {"gpt_oss_a", "2,1", {{"2", ""}, {"1", "gpt_oss_a_k1"}}},
    {"llama4_text_a", "1,2", {{"1", ""}, {"2", "llama4_text_a_k2"}}},
    {"zaya_a", "1,2", {{"1", ""}, {"2", "zaya_a_k2"}}},
};

std::string golden_of_form(const FormCase& form_case, const GoldenForm& form) {
  const std::string name = form.golden;
  return source_path("tests/golden/" +
                     (name.empty() ? std::string(form_case.checkpoint) : "top_k/" + name));
}

void expect_golden_forms(const FormCase& form_case, const Words& flags) {
  const std::string out = fresh_folder(form_case.checkpoint);
  Words words = {"--tokens", "1,16", "--top-k", form_case.top_k};
  words.insert(words.end(), flags.begin(), flags.end());
  expect_fine(export_case(form_case.checkpoint, out, words));
  expect_fine(run_command({"check", out}));
  for (const GoldenForm& form : form_case.forms)
    expect_fine(run_command(
        {"validate", out, "--golden", golden_of_form(form_case, form), "--top-k", form.form}));
}

class TopKGolden : public testing::TestWithParam<FormCase> {};

TEST_P(TopKGolden, EachVariantMatchesTransformers) { expect_golden_forms(GetParam(), {}); }

TEST_P(TopKGolden, MatchesTransformersWithHostRouting) {
  expect_golden_forms(GetParam(), {"--routing", "host", "--experts-per-shard", "2"});
}

INSTANTIATE_TEST_SUITE_P(Cases, TopKGolden, testing::ValuesIn(kFormCases),
                         [](const auto& info) { return std::string(info.param.checkpoint); });

TEST(TopK, CombinesWithLayersAndRoutingForms) {
  for (const Words& flags : {Words{"--layers-per-shard", "2"}, Words{"--layers-per-shard", "3"},
                             Words{"--routing", "iterate", "--experts", "bank"},
                             Words{"--routing", "topk", "--form", "matmul"}})
    expect_golden_forms(kFormCases[flags[1] == "3" ? 2 : 0], flags);
}

TEST(TopK, ExportsCoreMlFunctions) {
  expect_golden_forms(kFormCases[0], {"--target", "ane", "--widths", "functions"});
}

// Random weights with the sizes of a small model: kilobytes of graphs and megabytes of weights.
std::string noise_config() {
  const std::string path = testing::TempDir() + "/" + running_test() + ".config.json";
  write_file(path, R"({"model_type": "qwen3_moe", "hidden_size": 512, "intermediate_size": 512,
    "moe_intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "num_experts": 8, "num_experts_per_tok": 2,
    "vocab_size": 1024, "max_position_embeddings": 256, "norm_topk_prob": true})");
  return path;
}

uint64_t bytes_of_export(const std::string& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return bytes;
}

Outcome export_noise(const std::string& out, Words more) {
  more.insert(more.begin(),
              {"export", noise_config(), "--seeded-weights", "3", "--out", out, "--quiet"});
  return run_command(more);
}

TEST(TopK, AddsUnderOnePercentOfBytes) {
  for (const Words& target : {Words{"--dtype", "f16"}, Words{"--target", "ane", "--widths",
                                                             "functions", "--spec-version", "9"}}) {
    const std::string plain = fresh_folder("plain"), forms = fresh_folder("forms");
    Words flags = {"--tokens", "1,16"};
    flags.insert(flags.end(), target.begin(), target.end());
    expect_fine(export_noise(plain, flags));
    flags.insert(flags.end(), {"--top-k", "1,2"});
    expect_fine(export_noise(forms, flags));
    const uint64_t before = bytes_of_export(plain), after = bytes_of_export(forms);
    EXPECT_LT(static_cast<double>(after), 1.01 * static_cast<double>(before))
        << before << " and " << after;
    EXPECT_GT(after, before);
  }
}

// The first variant's graphs and the data file equal those of an export without variants.
TEST(TopK, SharesOneWeightFileBetweenVariants) {
  const std::string plain = fresh_folder("plain"), forms = fresh_folder("forms");
  expect_fine(export_case("mixtral_a", plain, {"--tokens", "1,8"}));
  expect_fine(export_case("mixtral_a", forms, {"--tokens", "1,8", "--top-k", "1,2"}));
  for (const char* same :
       {"moe/L00.data", "moe/L01.data", "attn/L00.t8.onnx", "lm_head/00.t1.onnx"})
    EXPECT_EQ(read_file(plain + "/" + same), read_file(forms + "/" + same)) << same;
  EXPECT_EQ(read_file(plain + "/moe/L00.t8.onnx"), read_file(forms + "/moe/L00.t8.k2.onnx"));
  EXPECT_NE(read_file(plain + "/moe/L00.t8.onnx"), read_file(forms + "/moe/L00.t8.k1.onnx"));
  const auto manifest = read_json(forms + "/manifest.json");
  const auto& listed = manifest["top_k"]["forms"];
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0]["name"], "2");
  EXPECT_LT(listed[1]["bytes_active"], listed[0]["bytes_active"]);
  EXPECT_LT(listed[1]["macs_active"], listed[0]["macs_active"]);
  EXPECT_TRUE(manifest["build"]["exact"].get<bool>());
}

TEST(TopK, MarksMissingOwnTopKInexact) {
  const std::string out = fresh_folder("out");
  const Outcome made =
      run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--top-k", "1"});
  expect_fine(made);
  EXPECT_THAT(made.out, HasSubstr("INEXACT: no variant has the checkpoint's own top-k, 2"));
  EXPECT_FALSE(read_json(out + "/manifest.json")["build"]["exact"].get<bool>());
  const Outcome other = validate_case("mixtral_a", out);
  EXPECT_EQ(other.exit_code, kExitBadInput);
  EXPECT_THAT(other.err, HasSubstr("[golden.other_top_k]"));
  expect_fine(
      run_command({"validate", out, "--golden", source_path("tests/golden/top_k/mixtral_a_k1")}));
}

void expect_form_refused(const std::string& checkpoint, const Words& flags,
                         const std::string& code) {
  const std::string out = fresh_folder("refused");
  const Outcome outcome = export_case(checkpoint, out, flags);
  EXPECT_EQ(outcome.exit_code, kExitBadInput) << code;
  EXPECT_THAT(outcome.err, HasSubstr("[" + code + "]"));
  EXPECT_TRUE(fs::is_empty(out)) << code;
}

TEST(TopK, RejectsInvalidVariants) {
  expect_form_refused("mixtral_a", {"--top-k", "0"}, "top_k.count");
  expect_form_refused("mixtral_a", {"--top-k", "2,6"}, "top_k.count");
  expect_form_refused("deepseek_v3_a", {"--top-k", "7"}, "top_k.groups");
  expect_form_refused("deepseek_v3_a", {"--top-k", "L0-:2"}, "top_k.layer");
  expect_form_refused("mixtral_a", {"--top-k", "L0:1"}, "top_k.missing");
  expect_form_refused("mixtral_a", {"--top-k", "L0-1:1;L1:2"}, "top_k.twice");
  expect_form_refused("phimoe_a", {"--top-k", "1,2"}, "top_k.fixed");
  expect_form_refused("mixtral_a", {"--top-k", "1,2", "--routing", "full_softmax"},
                      "top_k.routing");
  expect_form_refused("mixtral_a", {"--top-k", "1,2", "--target", "ane", "--widths", "separate"},
                      "top_k.packaging");
  expect_form_refused("mixtral_a", {"--top-k", "1,2", "--target", "gguf"}, "top_k.format");
  expect_form_refused("mixtral_a", {"--top-k", "1,4", "--expert-mask", "*:0-2"}, "experts.too_few");
  expect_form_refused("mixtral_a", {"--capacity", "1", "--routing", "full_softmax"},
                      "capacity.routing");
  expect_form_refused("granitemoehybrid_c", {"--top-k", "1"}, "top_k.no_experts");
  expect_form_refused("granitemoehybrid_c", {"--capacity", "1"}, "capacity.no_experts");
}

std::string policy_file(const std::string& text) {
  const std::string path = testing::TempDir() + "/" + running_test() + ".policy.json";
  write_file(path, text);
  return path;
}

TEST(TopK, RejectsInvalidPoliciesBeforeWriting) {
  const std::string confident = policy_file(R"({"confidence": 0.9})");
  expect_form_refused("mixtral_a", {"--top-k", "1,2", "--top-k-policy", confident},
                      "policy.confidence");
  expect_form_refused("mixtral_a", {"--top-k", "1,2", "--top-k-policy", "/nowhere"}, "policy.file");
}

nlohmann::json run_form_json(const std::string& out, Words more) {
  more.insert(more.begin(),
              {"run", out, "--prompt", "def read(self", "--max-tokens", "24", "--json"});
  const Outcome outcome = run_command(more);
  expect_fine(outcome);
  return nlohmann::json::parse(outcome.out);
}

TEST(TopK, FollowsThePolicy) {
  const std::string out = fresh_folder("out");
  const std::string policy = policy_file(R"({"battery": [{"below": 0.3, "form": "4"}],
                      "categories": [{"category": "chat", "form": "1"}]})");
  expect_fine(export_case("tinymoe", out,
                          {"--tokens", "1,16", "--top-k", "1,2,4", "--routing", "host",
                           "--experts-per-shard", "4", "--top-k-policy", policy}));
  expect_fine(run_command({"check", out}));
  const auto own = run_form_json(out, {}), four = run_form_json(out, {"--top-k", "4"});
  EXPECT_EQ(own["top_k"]["form"], "2");
  EXPECT_NE(own["tokens"], four["tokens"])
      << "both variants generate equal text, so the test cannot tell them apart";
  EXPECT_EQ(run_form_json(out, {"--top-k", "policy", "--battery", "0.1"})["tokens"],
            four["tokens"]);
  EXPECT_EQ(run_form_json(out, {"--top-k", "policy", "--battery", "0.9"})["tokens"], own["tokens"]);
  EXPECT_EQ(run_form_json(out, {"--top-k", "policy", "--category", "chat"})["top_k"]["form"], "1");
  // Confidence 1 selects the largest variant for every token, confidence 1e-9 the smallest.
  const auto sure = run_form_json(out, {"--top-k", "policy", "--confidence", "1"});
  EXPECT_EQ(sure["tokens"], four["tokens"]);
  EXPECT_EQ(sure["top_k"]["counts"].size(), 1u);
  const auto quick = run_form_json(out, {"--top-k", "policy", "--confidence", "1e-9"});
  EXPECT_EQ(quick["tokens"], run_form_json(out, {"--top-k", "1"})["tokens"]);
  EXPECT_EQ(quick["top_k"]["counts"][0]["top_k"], 1);
  EXPECT_EQ(quick["top_k"]["counts"].size(), 1u);
  const auto mixed = run_form_json(out, {"--top-k", "policy", "--confidence", "0.6"});
  EXPECT_GT(mixed["top_k"]["counts"].size(), 1u) << mixed["top_k"];
  const Outcome missing = run_command({"run", out, "--prompt", "x", "--top-k", "3"});
  EXPECT_EQ(missing.exit_code, kExitBadInput);
  EXPECT_THAT(missing.err, HasSubstr("[policy.form]"));
}

TEST(TopK, MeasuresCapacityDrops) {
  const std::string out = fresh_folder("out");
  const Outcome made = run_command(
      {"export", checkpoint_of("tinymoe"), "--out", out, "--tokens", "1,16", "--capacity", "1.25"});
  expect_fine(made);
  EXPECT_THAT(made.out, HasSubstr("INEXACT: with capacity factor 1.25, experts drop tokens"));
  expect_fine(run_command({"check", out}));
  const Outcome validated = validate_case("tinymoe", out, {"--json"});
  const auto capacity = nlohmann::json::parse(validated.out)["capacity"];
  EXPECT_GT(capacity["choices"].get<int64_t>(), 0) << validated.err;
  EXPECT_GT(capacity["dropped"].get<int64_t>(), 0);
  // Each token selects two experts per layer; steps of a single token drop nothing.
  const Outcome run = run_command({"run", out, "--prompt", "def ", "--max-tokens", "4"});
  EXPECT_THAT(run.out + run.err, HasSubstr("[capacity 1.25: "));
}

}  // namespace
}  // namespace moec
