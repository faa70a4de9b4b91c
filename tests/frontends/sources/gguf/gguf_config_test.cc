// Configs derived from the metadata keys of GGUF files.
#include "frontends/sources/gguf/gguf_config.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/frontends/sources/gguf/gguf_bytes.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

GgufBytes& f32(GgufBytes& bytes, std::string_view key, float value) {
  return bytes.raw_key(key, GgufType::f32, number_bytes(value));
}

// The keys that all architectures require and those of qwen3moe, with the prefix `arch`.
GgufBytes sample(const std::string& arch = "qwen3moe", float eps = 1e-6F) {
  GgufBytes bytes;
  bytes.text("general.architecture", arch)
      .u32(arch + ".block_count", 2)
      .u32(arch + ".context_length", 64)
      .u32(arch + ".embedding_length", 48)
      .u32(arch + ".attention.head_count", 6)
      .u32(arch + ".attention.head_count_kv", 2)
      .u32(arch + ".attention.key_length", 12)
      .u32(arch + ".expert_count", 5)
      .u32(arch + ".vocab_size", 96)
      .u32(arch + ".feed_forward_length", 24)
      .u32(arch + ".expert_feed_forward_length", 24);
  f32(bytes, arch + ".attention.layer_norm_rms_epsilon", eps);
  return bytes;
}

// Returns the config's text, or "CODE: cause".
std::string config_of(const GgufBytes& bytes) {
  auto header = parse_bytes(bytes.file(4096));
  EXPECT_TRUE(header) << render(header.error());
  const Gguf file{{{"x.gguf", 0}}, header->values, header->tensors};
  const auto model = identify(file);
  if (!model) return model.error().front().code + ": " + model.error().front().cause;
  const auto text = gguf_config(*model, [](const GgufTensor& tensor) -> Result<std::vector<float>> {
    return std::vector<float>(static_cast<size_t>(tensor.dims.at(0)), 2.5F);
  });
  if (!text) return text.error().front().code + ": " + text.error().front().cause;
  std::string all = text->text;
  for (const Diagnostic& warning : text->warnings) all += warning.code + ": " + warning.cause;
  return all;
}

TEST(GgufConfig, WritesTheFamilysConfig) {
  EXPECT_THAT(
      config_of(sample().u32("qwen3moe.expert_used_count", 2)),
      AllOf(HasSubstr(R"("model_type": "qwen3_moe")"), HasSubstr(R"("head_dim": 12)"),
            HasSubstr(R"("rms_norm_eps": 1e-06)"), HasSubstr(R"("norm_topk_prob": true)"),
            HasSubstr(R"("tie_word_embeddings": true)"), HasSubstr(R"("sliding_window": null)"),
            HasSubstr(R"("rope_parameters": {"rope_theta": 10000, "rope_type": "default"})")));
}

TEST(GgufConfig, RejectsCountsPerLayer) {
  GgufBytes bytes = sample();
  bytes.array("qwen3moe.expert_used_count", GgufType::u32, 2,
              number_bytes<uint32_t>(2) + number_bytes<uint32_t>(1));
  EXPECT_THAT(config_of(bytes), HasSubstr("gguf.key_type: "));
  EXPECT_THAT(config_of(sample()), HasSubstr("gguf.missing_key: "));
}

TEST(GgufConfig, SelectsTheFamilyByKeys) {
  const auto deepseek = [](int gating) {
    GgufBytes bytes = sample("deepseek2").u32("deepseek2.expert_used_count", 2);
    bytes.u32("deepseek2.rope.dimension_count", 4)
        .u32("deepseek2.attention.kv_lora_rank", 8)
        .u32("deepseek2.attention.key_length_mla", 12)
        .u32("deepseek2.attention.value_length_mla", 6);
    if (gating > 0) bytes.u32("deepseek2.expert_gating_func", static_cast<uint32_t>(gating));
    return bytes;
  };
  EXPECT_THAT(
      config_of(deepseek(2)),
      AllOf(HasSubstr(R"("model_type": "deepseek_v3")"), HasSubstr(R"("qk_nope_head_dim": 8)"),
            HasSubstr(R"("q_lora_rank": 0)"), HasSubstr(R"("routed_scaling_factor": 1)")));
  EXPECT_THAT(
      config_of(deepseek(2)),
      HasSubstr("gguf.absent: there is no key \"deepseek2.expert_weights_scale\", so "
                "\"routed_scaling_factor\" is 1, llama.cpp's default; the default of the family "
                "deepseek_v3 is 2.5"));
  EXPECT_THAT(config_of(deepseek(1)),
              AllOf(HasSubstr(R"("model_type": "deepseek_v2")"), Not(HasSubstr("weights_scale"))));
  EXPECT_THAT(config_of(deepseek(0)),
              AllOf(HasSubstr("gguf.family: "), HasSubstr("deepseek2.expert_gating_func 2")));
  EXPECT_THAT(config_of(deepseek(1).u32("deepseek2.expert_group_count", 4)),
              AllOf(HasSubstr("gguf.family: "), HasSubstr("expert_group_count is 4")));
  GgufBytes zero = deepseek(2);
  f32(zero, "deepseek2.expert_weights_scale", 0);
  EXPECT_THAT(config_of(zero), HasSubstr(R"("routed_scaling_factor": 1)"));
}

TEST(GgufConfig, RejectsUnknownGatingNumbers) {
  const auto minimax = [](uint32_t gating) {
    return sample("minimax-m2")
        .u32("minimax-m2.expert_used_count", 2)
        .u32("minimax-m2.rope.dimension_count", 6)
        .u32("minimax-m2.expert_gating_func", gating);
  };
  EXPECT_THAT(config_of(minimax(2)), HasSubstr(R"("scoring_func": "sigmoid")"));
  EXPECT_THAT(config_of(minimax(1)), HasSubstr("gguf.value: minimax-m2.expert_gating_func is 1"));
}

TEST(GgufConfig, NamesModelsWithoutFamilyKeys) {
  EXPECT_THAT(config_of(sample("llama4")
                            .u32("llama4.expert_used_count", 1)
                            .u32("llama4.interleave_moe_layer_step", 1)),
              HasSubstr(R"("use_qk_norm": true)"));
}

TEST(GgufConfig, ReadsValuesFromTensors) {
  GgufBytes bytes = sample().u32("qwen3moe.expert_used_count", 2);
  bytes.tensor({"blk.1.attn_q.bias", {72}, 0, 0});
  EXPECT_THAT(config_of(bytes), HasSubstr("gguf.conflict: \"attention_bias\""));
  bytes.tensor({"blk.1.attn_output.bias", {48}, 0, 288});
  EXPECT_THAT(config_of(bytes), HasSubstr(R"("attention_bias": true)"));
}

TEST(GgufConfig, ReadsRotaryScaling) {
  const auto with = [](const auto& change) {
    GgufBytes bytes = sample().u32("qwen3moe.expert_used_count", 2);
    change(bytes);
    return config_of(bytes);
  };
  EXPECT_THAT(with([](GgufBytes& bytes) { f32(bytes, "qwen3moe.rope.scale_linear", 4); }),
              HasSubstr(R"({"factor": 4, "rope_theta": 10000, "rope_type": "linear"})"));
  EXPECT_THAT(with([](GgufBytes& bytes) {
                bytes.text("qwen3moe.rope.scaling.type", "yarn");
                f32(bytes, "qwen3moe.rope.scaling.factor", 8);
                f32(bytes, "qwen3moe.rope.freq_base", 1e6F);
              }),
              HasSubstr(R"({"beta_fast": 32, "beta_slow": 1, "factor": 8, )"
                        R"("original_max_position_embeddings": 64, "rope_theta": 1000000, )"
                        R"("rope_type": "yarn"})"));
  EXPECT_THAT(with([](GgufBytes& bytes) { bytes.text("qwen3moe.rope.scaling.type", "spiral"); }),
              HasSubstr("gguf.rope: "));
  EXPECT_THAT(with([](GgufBytes& bytes) { bytes.text("qwen3moe.rope.scaling.type", "longrope"); }),
              HasSubstr("gguf.rope: the tensors rope_factors_short.weight"));
  EXPECT_THAT(with([](GgufBytes& bytes) { bytes.u32("qwen3moe.rope.dimension_count", 6); }),
              HasSubstr("gguf.rope: qwen3moe.rope.dimension_count is 6"));
  EXPECT_THAT(with([](GgufBytes& bytes) {
                bytes.tensor({"rope_freqs.weight", {2}, 0, 0});
              }),
              AllOf(HasSubstr(R"("long_factor": [2.5, 2.5])"), HasSubstr(R"("divisors")")));
}

// Heads have 12 dims, so there are 6 frequencies.
TEST(GgufConfig, KeepsAmplitudesWithoutYarn) {
  GgufBytes bytes = sample().u32("qwen3moe.expert_used_count", 2);
  f32(bytes, "qwen3moe.rope.scaling.attn_factor", 1.5F);
  EXPECT_THAT(config_of(bytes),
              AllOf(HasSubstr(R"("rope_type": "divisors")"), HasSubstr(R"("short_mscale": 1.5)"),
                    HasSubstr(R"("short_factor": [1, 1, 1, 1, 1, 1])")));
  GgufBytes wide = sample("minimax-m2").u32("minimax-m2.expert_used_count", 2);
  wide.u32("minimax-m2.expert_gating_func", 2).u32("minimax-m2.rope.dimension_count", 0xffffffff);
  f32(wide, "minimax-m2.rope.scaling.attn_factor", 1.5F);
  EXPECT_THAT(config_of(wide), HasSubstr("gguf.rope: 4294967295 dims rotate"));
  f32(bytes, "qwen3moe.rope.scale_linear", 4);
  EXPECT_THAT(config_of(bytes), AllOf(HasSubstr(R"("long_factor": [4, 4, 4, 4, 4, 4])"),
                                      Not(HasSubstr(R"("factor")"))));
}

TEST(GgufConfig, ScalesLatentAttentionByYarnOnly) {
  const auto deepseek = [](std::string_view key, float value) {
    GgufBytes bytes = sample("deepseek2").u32("deepseek2.expert_used_count", 2);
    bytes.u32("deepseek2.rope.dimension_count", 4)
        .u32("deepseek2.attention.kv_lora_rank", 8)
        .u32("deepseek2.attention.key_length_mla", 12)
        .u32("deepseek2.attention.value_length_mla", 6)
        .u32("deepseek2.expert_gating_func", 2);
    f32(bytes, "deepseek2." + std::string(key), value);
    return config_of(bytes);
  };
  EXPECT_THAT(deepseek("rope.scaling.factor", 4), HasSubstr("gguf.rope: "));
  EXPECT_THAT(deepseek("rope.scaling.factor", 1), HasSubstr(R"("rope_type": "default")"));
  EXPECT_THAT(deepseek("rope.scaling.attn_factor", 1.5F), HasSubstr("attn_factor is 1.5"));
}

TEST(GgufConfig, RejectsUnknownModelKeys) {
  const auto with = [](std::string_view key, GgufType type, const std::string& value) {
    return config_of(sample().u32("qwen3moe.expert_used_count", 2).raw_key(key, type, value));
  };
  EXPECT_THAT(with("qwen3moe.logit_scale", GgufType::f32, number_bytes(3.0F)),
              HasSubstr("gguf.unknown_key: unknown key \"qwen3moe.logit_scale\""));
  EXPECT_THAT(with("qwen3moe.attention.causal", GgufType::boolean, std::string(1, '\0')),
              HasSubstr("gguf.value: qwen3moe.attention.causal is 0; only 1 is supported"));
  EXPECT_THAT(with("qwen3moe.attention.causal", GgufType::string, gguf_string("no")),
              HasSubstr("attention.causal is string"));
  EXPECT_THAT(with("qwen3moe.attention.causal", GgufType::boolean, std::string(1, '\1')),
              Not(HasSubstr("gguf.")));
  EXPECT_THAT(with("qwen3moe.pooling_type", GgufType::u32, number_bytes<uint32_t>(3)),
              Not(HasSubstr("gguf.")));
  EXPECT_THAT(with("general.license", GgufType::string, gguf_string("mine")),
              Not(HasSubstr("gguf.")));
}

TEST(GgufConfig, WarnsAboutKeysLlamaCppIgnores) {
  GgufBytes bytes = sample().u32("qwen3moe.expert_used_count", 2);
  bytes.text("qwen3moe.rope.scaling.type", "yarn");
  f32(bytes, "qwen3moe.rope.scaling.yarn_beta_slow", 1);
  EXPECT_THAT(config_of(bytes), Not(HasSubstr("gguf.")));
  f32(bytes, "qwen3moe.rope.scaling.yarn_beta_fast", 8);
  EXPECT_THAT(config_of(bytes),
              AllOf(HasSubstr("gguf.unread_key: qwen3moe.rope.scaling.yarn_beta_fast is 8"),
                    HasSubstr(R"("beta_fast": 32)")));
}

TEST(GgufConfig, RequiresConsistentWindowKeys) {
  const auto with = [](float base) {
    GgufBytes bytes = sample("gpt-oss").u32("gpt-oss.expert_used_count", 2);
    bytes.u32("gpt-oss.attention.sliding_window", 8);
    f32(bytes, "gpt-oss.rope.freq_base", 5000);
    return config_of(f32(bytes, "gpt-oss.rope.freq_base_swa", base));
  };
  EXPECT_THAT(with(5000), Not(HasSubstr("gguf.value")));
  EXPECT_THAT(with(77), HasSubstr("gpt-oss.rope.freq_base_swa is 77, but gpt-oss.rope.freq_base "
                                  "is 5000"));
}

// Keys of an architecture whose layers differ by window.
GgufBytes windowed_sample() {
  return sample("exaone-moe")
      .u32("exaone-moe.expert_used_count", 2)
      .u32("exaone-moe.expert_gating_func", 2)
      .u32("exaone-moe.attention.sliding_window", 8);
}

TEST(GgufConfig, ReadsKindsOfLayers) {
  const std::string key = "exaone-moe.attention.sliding_window_pattern";
  const auto listed = [&](GgufType type, uint64_t count, const std::string& values) {
    return config_of(windowed_sample().array(key, type, count, values));
  };
  const char* const turns = R"("layer_types": ["sliding_attention", "full_attention"])";
  EXPECT_THAT(listed(GgufType::boolean, 2, std::string("\1\0", 2)), HasSubstr(turns));
  EXPECT_THAT(listed(GgufType::i32, 2, number_bytes(1) + number_bytes(0)), HasSubstr(turns));
  EXPECT_THAT(config_of(windowed_sample().u32(key, 2)), HasSubstr(turns));
  EXPECT_THAT(config_of(windowed_sample()),
              HasSubstr(R"("layer_types": ["sliding_attention", "sliding_attention"])"));
  EXPECT_THAT(listed(GgufType::boolean, 1, std::string(1, '\1')),
              HasSubstr("gguf.layers: " + key + " has 1 values, but the model has 2 layers"));
  EXPECT_THAT(listed(GgufType::i32, 2, number_bytes(1) + number_bytes(7)),
              HasSubstr("gguf.layers: layer 1 is of no kind"));
  EXPECT_THAT(listed(GgufType::f32, 2, number_bytes(1.0F) + number_bytes(0.0F)),
              HasSubstr("gguf.key_type"));
}

TEST(GgufConfig, ReadsLayersWithoutAttention) {
  const auto with = [](uint32_t first, uint32_t second) {
    GgufBytes bytes;
    bytes.text("general.architecture", "lfm2moe");
    for (const char* key : {"block_count", "expert_used_count", "expert_gating_func"})
      bytes.u32(std::string("lfm2moe.") + key, 2);
    for (const char* key :
         {"context_length", "embedding_length", "attention.head_count", "expert_count",
          "vocab_size", "feed_forward_length", "expert_feed_forward_length", "shortconv.l_cache"})
      bytes.u32(std::string("lfm2moe.") + key, 6);
    f32(bytes, "lfm2moe.attention.layer_norm_rms_epsilon", 1e-5F);
    return config_of(bytes.array("lfm2moe.attention.head_count_kv", GgufType::u32, 2,
                                 number_bytes(first) + number_bytes(second)));
  };
  EXPECT_THAT(with(0, 3), AllOf(HasSubstr(R"("layer_types": ["conv", "full_attention"])"),
                                HasSubstr(R"("num_key_value_heads": 3)")));
  EXPECT_THAT(with(2, 3), HasSubstr("gguf.conflict: "));
}

TEST(GgufConfig, ReadsRotationsByKindOfLayer) {
  GgufBytes bytes = sample("mellum").u32("mellum.expert_used_count", 2);
  bytes.u32("mellum.attention.sliding_window", 8).text("mellum.rope.scaling.type", "yarn");
  f32(bytes, "mellum.rope.scaling.factor", 4);
  EXPECT_THAT(config_of(f32(bytes, "mellum.rope.freq_base", 500)),
              AllOf(HasSubstr(R"("full_attention": {"beta_fast": 32)"),
                    HasSubstr(R"("sliding_attention": {"partial_rotary_factor": 1, )"
                              R"("rope_theta": 500, "rope_type": "default"})")));
}

// 6 pairs rotate.
TEST(GgufConfig, RequiresSectionsOfAllPairs) {
  const auto with = [](uint32_t first, uint32_t last) {
    GgufBytes bytes = sample("qwen3vlmoe").u32("qwen3vlmoe.expert_used_count", 2);
    std::string sections = number_bytes(first);
    for (const uint32_t pairs : {2U, 2U, last}) sections += number_bytes(pairs);
    return config_of(bytes.array("qwen3vlmoe.rope.dimension_sections", GgufType::u32, 4, sections));
  };
  EXPECT_THAT(with(2, 0), Not(HasSubstr("gguf.")));
  EXPECT_THAT(with(1, 0), HasSubstr("does not cover the 6 pairs"));
  EXPECT_THAT(with(2, 1), HasSubstr("does not cover the 6 pairs"));
}

TEST(GgufConfig, ReadsEndTokens) {
  GgufBytes bytes = sample().u32("qwen3moe.expert_used_count", 2);
  EXPECT_THAT(config_of(bytes), Not(HasSubstr("eos")));
  bytes.u32("tokenizer.ggml.eos_token_id", 7);
  EXPECT_THAT(config_of(bytes), HasSubstr(R"("eos_token_id": [7])"));
  bytes.u32("tokenizer.ggml.eot_token_id", 5).u32("tokenizer.ggml.eom_token_id", 9);
  bytes.array("tokenizer.ggml.tokens", GgufType::string, 3,
              gguf_string("a") + gguf_string("<|im_end|>") + gguf_string("<|user|>"));
  EXPECT_THAT(config_of(bytes), HasSubstr(R"("eos_token_id": [1, 5, 7, 9])"));
}

TEST(GgufConfig, RejectsUnknownArchitectures) {
  EXPECT_THAT(config_of(GgufBytes().text("general.architecture", "gemma")),
              HasSubstr("gguf.architecture: unknown architecture \"gemma\""));
  EXPECT_THAT(config_of(GgufBytes()), HasSubstr("gguf.missing_key: "));
}

TEST(GgufConfig, RequiresFiniteNumbers) {
  EXPECT_THAT(config_of(sample("qwen3moe", INFINITY).u32("qwen3moe.expert_used_count", 2)),
              HasSubstr("gguf.value: qwen3moe.attention.layer_norm_rms_epsilon is inf"));
  GgufBytes bytes = sample().u32("qwen3moe.expert_used_count", 2);
  f32(bytes, "qwen3moe.rope.freq_base", NAN);
  EXPECT_THAT(config_of(bytes), HasSubstr("gguf.value: qwen3moe.rope.freq_base is nan"));
}

}  // namespace
}  // namespace moec
