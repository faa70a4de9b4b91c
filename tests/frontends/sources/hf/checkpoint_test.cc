#include "frontends/sources/hf/checkpoint.h"

#include "backends/formats/safetensors/safetensors.h"
#include "backends/weights/views/equal_tensors.h"
#include "tests/files.h"
#include "tests/frontends/sources/hf/folder.h"
#include "tests/models/expect_error.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

TEST(Checkpoint, ReadsPerExpertAndFusedLayouts) {
  auto one_by_one = open_checkpoint(golden_folder("mixtral_a"), equal_tensors);
  ASSERT_TRUE(one_by_one.has_value()) << render(one_by_one.error());
  EXPECT_FALSE(one_by_one->config.names.has("experts_gate_up"));
  EXPECT_EQ(one_by_one->config.names("router", 1), "model.layers.1.block_sparse_moe.gate.weight");
  auto fused = open_checkpoint(golden_folder("mixtral_b"), equal_tensors);
  ASSERT_TRUE(fused.has_value()) << render(fused.error());
  EXPECT_FALSE(fused->config.names.has("expert_gate"));
  EXPECT_EQ(fused->config.names("experts_gate_up", 1), "model.layers.1.mlp.experts.gate_up_proj");
  EXPECT_EQ(fused->config.names("router", 1), "model.layers.1.mlp.gate.weight");
}

TEST(Checkpoint, DistinguishesLayoutsOfOneName) {
  auto published = open_checkpoint(golden_folder("qwen3_vl_moe_a"), equal_tensors);
  ASSERT_TRUE(published.has_value()) << render(published.error());
  EXPECT_TRUE(published->config.names.has("experts_down_in_out"));
  EXPECT_FALSE(published->config.names.has("experts_down"));
  auto saved = open_checkpoint(golden_folder("qwen3_vl_moe_b"), equal_tensors);
  ASSERT_TRUE(saved.has_value()) << render(saved.error());
  EXPECT_FALSE(saved->config.names.has("experts_gate_up_in_out")) << "their gates are square";
  EXPECT_TRUE(saved->config.names.has("experts_gate_up"));
}

TEST(Checkpoint, SelectsTheTextModel) {
  auto checkpoint = open_checkpoint(golden_folder("kimi_k25_a"), equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  EXPECT_EQ(checkpoint->config.family, "deepseek_v3");
  ASSERT_EQ(checkpoint->warnings.size(), 1u);
  EXPECT_EQ(checkpoint->warnings[0].code, "hf.text_model");
  EXPECT_EQ(checkpoint->warnings[0].severity, Severity::note);
  EXPECT_EQ(checkpoint->warnings[0].cause,
            "only the text model of \"kimi_k25\" is read; omitted: mm_projector.* (6 tensors), "
            "vision_tower.* (17 tensors)");
}

TEST(Checkpoint, AbbreviatesExpertsInTheNote) {
  auto checkpoint = open_checkpoint(golden_folder("ernie4_5_vl_moe_a"), equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  ASSERT_EQ(checkpoint->warnings.size(), 1u);
  EXPECT_EQ(checkpoint->warnings[0].cause,
            "only the text model of \"ernie4_5_vl_moe\" is read; omitted: "
            "model.layers.*.mlp.experts.N.* (30 tensors), model.layers.*.mlp.gate.weight_1 "
            "(2 tensors), model.resampler_model.* (15 tensors), model.vision_model.* (15 tensors)");
}

void expect_roles(const char* golden_case, std::initializer_list<const char*> chosen,
                  std::initializer_list<const char*> others) {
  auto checkpoint = open_checkpoint(golden_folder(golden_case), equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  for (const char* role : chosen)
    EXPECT_TRUE(checkpoint->config.names.has(role)) << golden_case << " " << role;
  for (const char* role : others)
    EXPECT_FALSE(checkpoint->config.names.has(role)) << golden_case << " " << role;
}

TEST(Checkpoint, DetectsHowMatricesAreStored) {
  expect_roles("minimax_m3_a", {"gate", "up", "shared_gate_proj", "shared_up", "expert_gate"},
               {"gate_up", "shared_gate_up", "experts_gate_up"});
  expect_roles("minimax_m3_b", {"gate_up", "shared_gate_up", "experts_gate_up"},
               {"gate", "up", "shared_gate_proj", "shared_up", "expert_gate"});
  expect_roles("ernie4_5_vl_moe_a", {"router_in_out", "router_choice_bias_rows"},
               {"router", "router_choice_bias_row"});
  expect_roles("ernie4_5_vl_moe_b", {"router", "router_choice_bias_row"},
               {"router_in_out", "router_choice_bias_rows"});
}

TEST(Checkpoint, ReadsSeveralFiles) {
  auto checkpoint = open_checkpoint(golden_folder("qwen3_moe_a"), equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  EXPECT_EQ(checkpoint->weights.files.size(), 2u);
}

TEST(Checkpoint, ReadsDenseLayersNextToExperts) {
  auto checkpoint = open_checkpoint(golden_folder("qwen3_moe_b"), equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  EXPECT_FALSE(checkpoint->config.layers[1].moe);
  EXPECT_TRUE(checkpoint->config.names.has("experts_gate_up"));
}

TEST(Checkpoint, NamesMissingTensorAndNearestName) {
  std::string folder = copy_golden("mixtral_a", "missing_tensor");
  change_file(folder + "/model.safetensors", "layers.1.self_attn.q_proj",
              "layers.1.self_attn.q_porj");
  auto checkpoint = open_checkpoint(folder, equal_tensors);
  expect_error(checkpoint, "hf.tensor.missing",
               "the tensor \"model.layers.1.self_attn.q_proj.weight\" (q) is missing; the "
               "nearest name is \"model.layers.1.self_attn.q_porj.weight\"");
  EXPECT_EQ(checkpoint.error()[0].place.tensor, "model.layers.1.self_attn.q_proj.weight");
}

TEST(Checkpoint, MentionsTyingForAMissingHead) {
  std::string folder = copy_golden("mixtral_a", "missing_head");
  change_file(folder + "/model.safetensors", "\"lm_head.weight\"", "\"lm_tail.weight\"");
  expect_error(open_checkpoint(folder, equal_tensors), "hf.tensor.missing",
               "set tie_word_embeddings if the head shares the embedding");
}

TEST(Checkpoint, NamesAMissingExpert) {
  std::string folder = copy_golden("mixtral_a", "missing_expert");
  change_file(folder + "/model.safetensors", "layers.0.block_sparse_moe.experts.4.w2",
              "layers.0.block_sparse_moe.experts.9.w2");
  expect_error(open_checkpoint(folder, equal_tensors), "hf.tensor.missing",
               "experts.4.w2.weight\" (expert_down)");
}

TEST(Checkpoint, RejectsAWrongShape) {
  std::string folder = copy_golden("mixtral_a", "wrong_shape");
  change_file(folder + "/config.json", "\"num_local_experts\": 5", "\"num_local_experts\": 4");
  auto checkpoint = open_checkpoint(folder, equal_tensors);
  expect_error(checkpoint, "hf.tensor.shape",
               "the router of this model must be [4,48], found [5,48]");
  EXPECT_EQ(checkpoint.error()[0].place.tensor, "model.layers.0.block_sparse_moe.gate.weight");
  EXPECT_THAT(checkpoint.error()[0].place.file, testing::EndsWith("model.safetensors"));
}

TEST(Checkpoint, NamesKeysOfMismatchedDefaults) {
  std::string folder = copy_golden("mixtral_a", "absent_expert_width");
  change_file(folder + "/config.json", "\"intermediate_size\": 40,", "");
  expect_error(open_checkpoint(folder, equal_tensors), "hf.tensor.shape",
               "\"intermediate_size\" is missing and defaults to 14336");
  folder = copy_golden("gpt_oss_a", "absent_head_dim");
  change_file(folder + "/config.json", "\"head_dim\": 12,", "");
  expect_error(open_checkpoint(folder, equal_tensors), "hf.tensor.shape",
               "\"head_dim\" is missing and defaults to 64");
  folder = copy_golden("deepseek_v3_a", "absent_dense_layers");
  change_file(folder + "/config.json", "\"first_k_dense_replace\": 1,", "");
  expect_error(open_checkpoint(folder, equal_tensors), "hf.tensor.missing",
               "\"first_k_dense_replace\" is missing and defaults to 3");
}

TEST(Checkpoint, RejectsAWrongElementType) {
  std::string folder = copy_golden("mixtral_a", "wrong_dtype");
  change_file(folder + "/model.safetensors", "\"model.norm.weight\":{\"dtype\":\"BF16\"",
              "\"model.norm.weight\":{\"dtype\":\"I16\" ");
  expect_error(open_checkpoint(folder, equal_tensors), "hf.tensor.dtype",
               "moec cannot represent I16[48]; the final_norm must be [48] in F32, F16 or BF16");
  folder = copy_golden("qwen2_moe_a", "wrong_dtype_32");
  change_file(folder + "/model.safetensors", "\"model.norm.weight\":{\"dtype\":\"F32\"",
              "\"model.norm.weight\":{\"dtype\":\"I32\"");
  expect_error(open_checkpoint(folder, equal_tensors), "hf.tensor.dtype",
               "the tensor is stored as i32; weights must be F32, F16 or BF16");
}

TEST(Checkpoint, AbbreviatesManyFindings) {
  std::string folder = copy_golden("mixtral_a", "many");
  change_file(folder + "/config.json", "\"hidden_size\": 48", "\"hidden_size\": 60");
  auto checkpoint = open_checkpoint(folder, equal_tensors);
  expect_error(checkpoint, "hf.tensor.shape", "must be [96,60], found [96,48]");
  expect_error(checkpoint, "hf.tensor.more",
               "more tensors are missing or have a wrong shape or type");
  EXPECT_EQ(checkpoint.error().size(), 9u);
}

TEST(Checkpoint, RejectsTruncatedWeights) {
  std::string folder = copy_golden("olmoe_a", "truncated_weights");
  std::filesystem::resize_file(folder + "/model.safetensors", 100'000);
  expect_error(open_checkpoint(folder, equal_tensors), "safetensors.truncated", "exceed the file");
}

TEST(Checkpoint, RejectsIndexPathsOutsideTheFolder) {
  std::string folder = copy_golden("qwen3_moe_a", "leads_out");
  change_file(folder + "/model.safetensors.index.json", "\"model-00001-of-00002.safetensors\"",
              "\"../model-00001.safetensors\"");
  expect_error(open_checkpoint(folder, equal_tensors), "index.file_name",
               "\"../model-00001.safetensors\"");
}

TEST(Checkpoint, RejectsAMissingWeightFile) {
  std::string folder = copy_golden("qwen3_moe_a", "absent_weight_file");
  std::filesystem::remove(folder + "/model-00002-of-00002.safetensors");
  expect_error(open_checkpoint(folder, equal_tensors), "index.absent_file",
               "\"model-00002-of-00002.safetensors\", which is missing");
}

TEST(Checkpoint, RejectsMissingConfigAndFolder) {
  expect_error(open_checkpoint(empty_folder("no_config"), equal_tensors), "hf.no_config",
               "no config.json");
  expect_error(open_checkpoint(golden_folder("no_such_model"), equal_tensors), "hf.no_folder",
               "no such file or folder");
}

// Paths that users may give by mistake instead of a checkpoint.
struct MistakenSource {
  const char* code;
  const char* words;  // required substring of the cause or the next step
  void (*make)(const std::string& folder);
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const MistakenSource& source, std::ostream* out) { *out << source.words; }

constexpr const char* kLfsPointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";

void add_config(const std::string& folder) {
  std::filesystem::copy_file(golden_folder("mixtral_b") + "/config.json", folder + "/config.json");
}

void add_snapshot(const std::string& model) {
  std::filesystem::create_directories(model + "/snapshots/0a1b");
  add_config(model + "/snapshots/0a1b");
}

class MistakenSources : public testing::TestWithParam<MistakenSource> {};

TEST_P(MistakenSources, AreReportedWithTheirKind) {
  const std::string folder = empty_folder("given");
  GetParam().make(folder);
  const auto opened = open_checkpoint(folder, equal_tensors);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().front().code, GetParam().code);
  EXPECT_THAT(render(opened.error()), testing::HasSubstr(GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, MistakenSources,
    testing::Values(
        MistakenSource{"hf.no_index", "there are 2 weight files",
                       [](const std::string& folder) {
                         add_config(folder);
                         for (const char* part : {"1", "2"})
                           write_file(folder + "/model-0000" + part + "-of-00002.safetensors", "");
                       }},
        MistakenSource{"hf.dangling_link", "points to ../blobs/0a",
                       [](const std::string& folder) {
                         add_config(folder);
                         std::filesystem::create_symlink("../blobs/0a",
                                                         folder + "/model.safetensors");
                       }},
        MistakenSource{"file.lfs_pointer", "model.safetensors",
                       [](const std::string& folder) {
                         add_config(folder);
                         write_file(folder + "/model.safetensors", kLfsPointer);
                       }},
        MistakenSource{
            "file.lfs_pointer", "config.json",
            [](const std::string& folder) { write_file(folder + "/config.json", kLfsPointer); }},
        MistakenSource{"hf.hub_cache", "/snapshots/0a1b", add_snapshot},
        MistakenSource{"hf.hub_cache", "/models--a--b/snapshots/0a1b",
                       [](const std::string& folder) { add_snapshot(folder + "/models--a--b"); }},
        MistakenSource{
            "hf.hub_cache", "/hub/models--a--b/snapshots/0a1b",
            [](const std::string& folder) { add_snapshot(folder + "/hub/models--a--b"); }},
        MistakenSource{
            "hf.adapter", "base model",
            [](const std::string& folder) { write_file(folder + "/adapter_config.json", "{}"); }},
        MistakenSource{"hf.gguf_folder", "m-00001-of-00002.gguf", [](const std::string& folder) {
                         write_file(folder + "/m-00002-of-00002.gguf", "");
                         write_file(folder + "/m-00001-of-00002.gguf", "");
                       }}));

TEST(Checkpoint, RejectsAnUnknownFamily) {
  std::string folder = copy_golden("mixtral_a", "unknown_family");
  change_file(folder + "/config.json", "\"model_type\": \"mixtral\"",
              "\"model_type\": \"gpt_neox\"");
  auto checkpoint = open_checkpoint(folder, equal_tensors);
  expect_error(checkpoint, "hf.family.unknown", "known families: ");
  EXPECT_THAT(checkpoint.error()[0].place.file, testing::EndsWith("config.json"));
}

// In these mixers, transformers also applies the model's activation to the convolution.
TEST(Checkpoint, RejectsOtherActivationsOfConvolutions) {
  for (const char* golden : {"qwen3_next_a", "qwen3_5_moe_b", "granitemoehybrid_a"}) {
    const std::string folder = copy_golden(golden, std::string(golden) + "_gelu");
    change_file(folder + "/config.json", "\"hidden_act\": \"silu\"",
                "\"hidden_act\": \"gelu_pytorch_tanh\"");
    expect_error(open_checkpoint(folder, equal_tensors), "hf.config.unsupported_value",
                 "it must be silu");
  }
}

std::string tied_mixtral(const std::string& name) {
  std::string folder = copy_golden("mixtral_a", name);
  change_file(folder + "/config.json", "\"tie_word_embeddings\": false",
              "\"tie_word_embeddings\": true");
  return folder;
}

// transformers 5.23 does not tie such a head either, whatever the config says.
TEST(Checkpoint, UsesADifferingStoredHead) {
  auto checkpoint = open_checkpoint(tied_mixtral("own_head"), equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  EXPECT_FALSE(checkpoint->config.head.tied);
  EXPECT_THAT(checkpoint->config.names.ignored, testing::Not(testing::Contains("lm_head.weight")));
  ASSERT_EQ(checkpoint->warnings.size(), 1u);
  EXPECT_EQ(checkpoint->warnings[0].code, "hf.head.own");
  EXPECT_EQ(checkpoint->warnings[0].severity, Severity::note);
  EXPECT_EQ(checkpoint->warnings[0].place.tensor, "lm_head.weight");
}

// save_model() of safetensors keeps only one of several names of a shared tensor.
TEST(Checkpoint, UsesTheHeadAsMissingEmbedding) {
  const std::string folder = tied_mixtral("head_alone");
  change_file(folder + "/model.safetensors", "\"model.embed_tokens.", "\"model.other_tokens.");
  auto checkpoint = open_checkpoint(folder, equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  EXPECT_TRUE(checkpoint->config.head.tied);
  EXPECT_EQ(checkpoint->config.names("embed"), "lm_head.weight");
  EXPECT_THAT(checkpoint->config.names.ignored, testing::Not(testing::Contains("lm_head.weight")));
}

// Overwrites the head with the embedding's bytes, except for the last `left_out` bytes.
void copy_embedding_to_head(const std::string& folder, size_t left_out = 0) {
  const std::string path = folder + "/model.safetensors";
  auto header = read_safetensors(path);
  ASSERT_TRUE(header.has_value());
  std::string bytes = read_file(path);
  const auto find = [&](const std::string& name) {
    return *std::find_if(header->tensors.begin(), header->tensors.end(),
                         [&](const auto& tensor) { return tensor.name == name; });
  };
  const auto embedding = find("model.embed_tokens.weight"), head = find("lm_head.weight");
  const size_t size = embedding.end - embedding.begin - left_out;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(embedding.begin), size,
              bytes.begin() + static_cast<std::ptrdiff_t>(head.begin));
  write_file(path, bytes);
}

TEST(Checkpoint, KeepsTheTieOfEqualHeads) {
  const std::string folder = tied_mixtral("tied_copy");
  copy_embedding_to_head(folder);
  auto checkpoint = open_checkpoint(folder, equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  EXPECT_TRUE(checkpoint->config.head.tied);
  EXPECT_THAT(checkpoint->config.names.ignored, testing::Contains("lm_head.weight"));
  EXPECT_TRUE(checkpoint->warnings.empty());
}

TEST(Checkpoint, ComparesHeadsToTheLastByte) {
  const std::string folder = tied_mixtral("nearly_tied_copy");
  copy_embedding_to_head(folder, 2);
  auto checkpoint = open_checkpoint(folder, equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  EXPECT_FALSE(checkpoint->config.head.tied);
}

TEST(Checkpoint, WarnsAboutOmittedTensors) {
  std::string folder = copy_golden("mixtral_a", "left_out");
  auto header = read_safetensors(folder + "/model.safetensors");
  ASSERT_TRUE(header.has_value());
  std::string bytes = read_file(folder + "/model.safetensors");
  std::string json = bytes.substr(8, header->tensors.front().begin - 8);
  size_t payload = bytes.size() - 8 - json.size();
  json.resize(json.rfind('}'));
  json += R"(,"extra.counter":{"dtype":"F64","shape":[1],"data_offsets":[)" +
          std::to_string(payload) + "," + std::to_string(payload + 8) + "]}}";
  std::string changed = safetensors_bytes(json, 0) + bytes.substr(header->tensors.front().begin) +
                        std::string(8, '\0');
  write_file(folder + "/model.safetensors", changed);
  auto checkpoint = open_checkpoint(folder, equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  ASSERT_EQ(checkpoint->warnings.size(), 1u);
  EXPECT_EQ(checkpoint->warnings[0].code, "hf.tensor.left_out");
  EXPECT_EQ(checkpoint->warnings[0].place.tensor, "extra.counter");
}

TEST(OpenConfig, ReadsAConfigWithoutWeights) {
  std::string folder = copy_golden("qwen3_moe_a", "config_only");
  for (const char* file : {"/model-00001-of-00002.safetensors", "/model-00002-of-00002.safetensors",
                           "/model.safetensors.index.json"})
    std::filesystem::remove(folder + file);
  auto config = open_config(folder);
  ASSERT_TRUE(config.has_value()) << render(config.error());
  EXPECT_EQ(config->model.moe.experts, 6);
  EXPECT_FALSE(config->model.names.has("experts_gate_up"));
}

TEST(FamilyFile, ReplacesTheBuiltInFamily) {
  std::string folder = copy_golden("olmoe_a", "family_file");
  std::string text = read_file(source_dir() + "/models/families/olmoe.json");
  write_file(folder + "/own.json", text);
  change_file(folder + "/own.json", "\"model_type\": \"olmoe\"", "\"model_type\": \"my_olmoe\"");
  change_file(folder + "/config.json", "\"model_type\": \"olmoe\"", "\"model_type\": \"my_olmoe\"");
  expect_error(open_checkpoint(folder, equal_tensors), "hf.family.unknown", "my_olmoe");
  auto family = read_family_file(folder + "/own.json");
  ASSERT_TRUE(family.has_value()) << render(family.error());
  auto checkpoint = open_checkpoint(folder, equal_tensors, &*family);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  EXPECT_EQ(checkpoint->config.family, "my_olmoe");
}

}  // namespace
}  // namespace moec
