// Target ort-genai: the folder also contains a decoder graph and a configuration for
// onnxruntime-genai. tests/peers/test_genai.py runs them.
#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"
#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

using testing::Contains;
using testing::HasSubstr;

const Words kTarget = {"--target", "ort-genai"};

Outcome export_decoder(const std::string& name, const std::string& out, const Words& more = {}) {
  Words flags = kTarget;
  flags.insert(flags.end(), more.begin(), more.end());
  return export_case(name, out, flags);
}

onnx::ModelProto model_of(const std::string& out) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(read_file(out + "/model.onnx")));
  return model;
}

std::vector<std::string> names_of_inputs(const onnx::GraphProto& graph) {
  std::vector<std::string> names;
  for (const auto& input : graph.input()) names.push_back(input.name());
  return names;
}

TEST(DecoderExport, ReadsWeightsOfShards) {
  const std::string out = fresh_folder("out");
  expect_fine(export_decoder("tinymoe", out));
  const onnx::ModelProto model = model_of(out);
  EXPECT_THAT(names_of_inputs(model.graph()), Contains("past_key_values.3.value"));
  EXPECT_EQ(model.graph().output(0).name(), "logits");
  size_t external = 0;
  for (const auto& tensor : model.graph().initializer())
    for (const auto& entry : tensor.external_data())
      if (entry.key() == "location") {
        EXPECT_TRUE(std::filesystem::exists(out + "/" + entry.value())) << entry.value();
        ++external;
      }
  EXPECT_GT(external, 10);
  expect_fine(run_command({"check", out}));
  expect_fine(validate_case("tinymoe", out));
}

TEST(DecoderExport, WritesOnlyKeysOfTheEngine) {
  const std::string out = fresh_folder("out");
  expect_fine(export_decoder("tinymoe", out, {"--context", "64"}));
  const auto config = read_json(out + "/genai_config.json");
  EXPECT_EQ(config["model"]["type"], "decoder");
  EXPECT_EQ(config["model"]["context_length"], 64);
  EXPECT_EQ(config["search"]["past_present_share_buffer"], false);
  EXPECT_EQ(config.size(), 2);
}

// Without end tokens the engine ends texts at the pad id.
TEST(DecoderExport, AvoidsCommonTokenAsEnd) {
  const std::string out = fresh_folder("out");
  expect_fine(export_decoder("olmoe_a", out));
  const auto model = read_json(out + "/genai_config.json")["model"];
  EXPECT_FALSE(model.contains("eos_token_id"));
  EXPECT_EQ(model["pad_token_id"], model["vocab_size"].get<int64_t>() - 1);
}

TEST(DecoderExport, KeepsSamplingDefaults) {
  const CheckpointCopy copy;
  copy.write("generation_config.json",
             R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 1.5})");
  const std::string out = fresh_folder("out");
  expect_fine(run_command({"export", copy.folder(), "--out", out, "--target", "ort-genai"}));
  const auto search = read_json(out + "/genai_config.json")["search"];
  EXPECT_EQ(search["do_sample"], true);
  EXPECT_EQ(search["temperature"], 0.6);
  EXPECT_EQ(search["top_k"], 20);
  EXPECT_FALSE(search.contains("top_p"));  // out of the engine's range
}

// The engine takes 0 as greedy if there is no top_p, and transformers as no limit.
TEST(DecoderExport, KeepsSamplingWithoutLimits) {
  const CheckpointCopy copy;
  copy.write("generation_config.json", R"({"do_sample": true, "temperature": 0, "top_k": 0})");
  const std::string out = fresh_folder("out");
  expect_fine(run_command({"export", copy.folder(), "--out", out, "--target", "ort-genai"}));
  const auto search = read_json(out + "/genai_config.json")["search"];
  EXPECT_EQ(search["temperature"], 0);
  EXPECT_EQ(search["top_k"], 0);
  EXPECT_EQ(search["top_p"], 1);
}

TEST(DecoderExport, ChecksItsFiles) {
  const std::string out = fresh_folder("out");
  expect_fine(export_decoder("llama_a", out));
  write_file(out + "/genai_config.json", "{}");
  const Outcome outcome = run_command({"check", out});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("genai_config.json"));
}

TEST(DecoderExport, KeepsFusedExperts) {
  const std::string out = fresh_folder("out");
  expect_fine(export_decoder("tinymoe", out, {"--routing", "op"}));
  const onnx::ModelProto model = model_of(out);
  size_t fused = 0;
  for (const auto& node : model.graph().node()) fused += node.op_type() == "MoE";
  EXPECT_EQ(fused, 4);
}

std::vector<onnx::NodeProto> fused_attention(const std::string& out) {
  std::vector<onnx::NodeProto> nodes;
  const onnx::ModelProto model = model_of(out);
  for (const auto& node : model.graph().node())
    if (node.op_type() == "GroupQueryAttention") nodes.push_back(node);
  return nodes;
}

bool has_window(const onnx::NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [](const auto& one) { return one.name() == "local_window_size"; });
}

// Heads of 8: with windows, and with sinks.
TEST(DecoderExport, FusesAttention) {
  for (const auto& [name, inputs, window] :
       {std::tuple("mixtral_a", 7, true), std::tuple("gpt_oss_b", 12, false)}) {
    const std::string out = fresh_folder(name);
    expect_fine(export_decoder(name, out));
    const auto nodes = fused_attention(out);
    ASSERT_FALSE(nodes.empty()) << name;
    EXPECT_EQ(nodes.front().input_size(), inputs);
    EXPECT_EQ(std::any_of(nodes.begin(), nodes.end(), has_window), window) << name;
  }
}

// Engines refuse models with equal names.
TEST(DecoderExport, NamesEachNodeOnce) {
  const std::string out = fresh_folder("names");
  expect_fine(export_decoder("dots1_b", out));
  const onnx::ModelProto model = model_of(out);
  std::set<std::string> names;
  for (const auto& node : model.graph().node())
    EXPECT_TRUE(names.insert(node.name()).second) << node.name();
  EXPECT_GE(fused_attention(out).size(), 2u);
}

// Heads of 12, and a latent cache.
TEST(DecoderExport, KeepsAttentionThatNoOpComputes) {
  for (const char* name : {"qwen3_moe_a", "deepseek_v3_a"}) {
    const std::string out = fresh_folder(name);
    expect_fine(export_decoder(name, out));
    EXPECT_TRUE(fused_attention(out).empty()) << name;
  }
}

TEST(DecoderExport, SplitsLatentCacheInHalves) {
  const std::string out = fresh_folder("out");
  expect_fine(export_decoder("deepseek_v3_a", out));
  const onnx::ModelProto model = model_of(out);
  for (const auto& input : model.graph().input())
    if (input.name() == "past_key_values.0.key" || input.name() == "past_key_values.0.value") {
      EXPECT_EQ(input.type().tensor_type().shape().dim(1).dim_value(), 1);
    }
}

TEST(DecoderExport, HasSameBytesForAnyJobs) {
  std::string first;
  for (const char* jobs : {"1", "4"}) {
    const std::string out = fresh_folder(jobs);
    expect_fine(export_decoder("mixtral_a", out, {"--jobs", jobs}));
    const std::string bytes = read_file(out + "/model.onnx");
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first);
  }
}

TEST(DecoderExport, RejectsModelsWithoutCache) {
  EXPECT_THAT(export_decoder("tinytagger", fresh_folder("out")).err, HasSubstr("genai.family"));
}

TEST(DecoderExport, RejectsFormsOfStaticGraphs) {
  for (const Words& flags : {Words{"--form", "conv"}, Words{"--capacity", "1.5"}})
    EXPECT_THAT(export_decoder("tinymoe", fresh_folder("out"), flags).err, HasSubstr("genai.form"));
}

}  // namespace
}  // namespace moec
