// --compat genai: graphs and stages with which onnxruntime-genai runs static shards.
// tests/peers/test_genai_pipeline.py runs them.
#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include <set>

#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"
#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

Outcome export_pipeline(const std::string& name, const std::string& out, const Words& more = {}) {
  Words flags = {"--compat", "genai", "--tokens", "1,16"};
  flags.insert(flags.end(), more.begin(), more.end());
  return export_case(name, out, flags);
}

// Sizes and element types of the inputs or outputs of a graph, by name.
template <class Ports>
std::map<std::string, std::string> types_of(const Ports& ports) {
  std::map<std::string, std::string> types;
  for (const auto& port : ports) {
    const auto& tensor = port.type().tensor_type();
    std::string& text = types[port.name()] = std::to_string(tensor.elem_type());
    for (const auto& dim : tensor.shape().dim()) text += "," + std::to_string(dim.dim_value());
  }
  return types;
}

bool is_of_engine(const std::string& name) {
  static const std::set<std::string> inputs = {"input_ids", "position_ids", "attention_mask"};
  return inputs.contains(name) || name.starts_with("past_key_values.");
}

// Runs the stages of one token width on types: every input has been made with the same type.
void expect_chained(const std::string& out, bool prompt) {
  const json decoder = read_json(out + "/genai_config.json").at("model").at("decoder");
  std::map<std::string, std::string> known;
  size_t presents = 0;
  for (const json& entry : decoder.at("pipeline")) {
    const std::string& name = entry.begin().key();
    const json& stage = entry.begin().value();
    EXPECT_NE(stage.at("run_on_prompt"), stage.at("run_on_token_gen"));
    if (stage.at("run_on_prompt") != prompt) continue;
    onnx::ModelProto model;
    ASSERT_TRUE(
        model.ParseFromString(read_file(out + "/" + stage.at("filename").get<std::string>())));
    for (const auto& [input, type] : types_of(model.graph().input()))
      if (!is_of_engine(input)) {
        EXPECT_EQ(known[input], type) << name << " reads " << input;
      }
    const json forwarded = stage.value("output_names_forwarder", json::object());
    for (const auto& [output, type] : types_of(model.graph().output())) {
      known[forwarded.value(output, output)] = type;
      presents += output.starts_with("present.");
    }
  }
  EXPECT_TRUE(known.contains(decoder.at("outputs").at("logits")));
  EXPECT_GT(presents, 0);
}

class PipelineOf : public testing::TestWithParam<const char*> {};

// Latent attention, windows with sinks, chunks, and two rotations.
TEST_P(PipelineOf, ChainsItsStages) {
  const std::string out = fresh_folder("out");
  expect_fine(export_pipeline(GetParam(), out));
  for (const bool prompt : {true, false}) expect_chained(out, prompt);
  expect_fine(run_command({"check", out}));
}

INSTANTIATE_TEST_SUITE_P(PipelineExport, PipelineOf,
                         testing::Values("tinymoe", "deepseek_v3_a", "gpt_oss_a", "llama4_text_a",
                                         "gemma4_a"),
                         [](const auto& info) { return std::string(info.param); });

TEST(PipelineExport, ChainsOtherForms) {
  for (const Words& flags :
       {Words{"--target", "qnn"}, Words{"--routing", "host"}, Words{"--head-slices", "3"},
        Words{"--layers-per-shard", "2"}, Words{"--experts-per-shard", "4"}}) {
    const std::string out = fresh_folder("out");
    expect_fine(export_pipeline("tinymoe", out, flags));
    for (const bool prompt : {true, false}) expect_chained(out, prompt);
  }
}

TEST(PipelineExport, LeavesShardsUnchanged) {
  const std::string out = fresh_folder("out"), plain = fresh_folder("plain");
  expect_fine(export_pipeline("mixtral_a", out));
  expect_fine(export_case("mixtral_a", plain, {"--tokens", "1,16"}));
  const auto with = all_bytes(out);
  size_t shards = 0;
  for (const auto& [path, bytes] : all_bytes(plain)) {
    if (path.starts_with("manifest.")) continue;
    EXPECT_EQ(with.at(path), bytes) << path;
    ++shards;
  }
  EXPECT_GT(shards, 8);
}

TEST(PipelineExport, ChecksItsFiles) {
  for (const char* path : {"genai_config.json", "genai_front.t1.onnx", "genai/end.t16.onnx"}) {
    const std::string out = fresh_folder("out");
    expect_fine(export_pipeline("llama_a", out));
    write_file(out + "/" + path, "{}");
    const Outcome outcome = run_command({"check", out});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.out, HasSubstr(path));
  }
}

TEST(PipelineExport, ForceRemovesItsFiles) {
  const std::string out = fresh_folder("out");
  expect_fine(export_pipeline("llama_a", out));
  expect_fine(export_pipeline("llama_a", out, {"--force"}));
  expect_fine(export_case("llama_a", out, {"--tokens", "1,16", "--force"}));
  EXPECT_FALSE(fs::exists(out + "/genai"));
  EXPECT_FALSE(fs::exists(out + "/genai_front.t1.onnx"));
  EXPECT_FALSE(fs::exists(out + "/genai_config.json"));
}

TEST(PipelineExport, KeepsFilesOfOthers) {
  const std::string out = fresh_folder("out");
  fs::create_directories(out + "/genai");
  write_file(out + "/genai/end.t1.onnx", "mine");
  EXPECT_THAT(export_pipeline("llama_a", out, {"--force"}).err, HasSubstr("export.foreign_file"));
  EXPECT_EQ(read_file(out + "/genai/end.t1.onnx"), "mine");
}

TEST(PipelineExport, ResumesWithTheSameBytes) {
  const std::string whole = fresh_folder("whole"), out = fresh_folder("out");
  const auto options_of = [](const std::string& folder) {
    ExportOptions options = export_options_of(checkpoint_of("mixtral_a"), "onnx", folder);
    options.output.compat = Compat::genai;
    return options;
  };
  const size_t polls = count_polls(options_of(whole));
  EXPECT_FALSE(export_until(options_of(out), polls / 2));
  EXPECT_FALSE(fs::exists(out + "/genai_config.json"));
  EXPECT_TRUE(export_model(options_of(out)));
  EXPECT_EQ(all_bytes(out), all_bytes(whole));
}

TEST(PipelineExport, RejectsModelsWithStates) {
  const auto refusal = [](const std::string& name) {
    return export_pipeline(name, fresh_folder("out")).err;
  };
  EXPECT_THAT(refusal("qwen3_next_a"), AllOf(HasSubstr("compat.genai"), HasSubstr("recurrent")));
  EXPECT_THAT(refusal("lfm2_moe_a"), AllOf(HasSubstr("compat.genai"), HasSubstr("convolutions")));
  EXPECT_THAT(refusal("tinytagger"), HasSubstr("compat.genai"));
}

TEST(PipelineExport, RejectsOtherWidthsAndTargets) {
  const auto refusal = [](const Words& flags) {
    Words all = {"--compat", "genai"};
    all.insert(all.end(), flags.begin(), flags.end());
    return export_case("tinymoe", fresh_folder("out"), all).err;
  };
  for (const char* tokens : {"1", "16", "4,16", "1,4,16"})
    EXPECT_THAT(refusal({"--tokens", tokens}),
                AllOf(HasSubstr("compat.genai"), HasSubstr("--tokens 1,W")));
  EXPECT_THAT(refusal({"--target", "ane"}), AllOf(HasSubstr("compat.genai"), HasSubstr("ONNX")));
  EXPECT_THAT(refusal({"--target", "ort-genai", "--tokens", "1,16"}), HasSubstr("compat.genai"));
  EXPECT_THAT(refusal({"--target", "gguf"}), HasSubstr("export.flags"));
}

}  // namespace
}  // namespace moec
