// The configs of published releases, reduced to the keys that give sizes, and the exact number of
// parameters that their descriptors ask for.
#include <gtest/gtest.h>

#include "frontends/hf/config.h"
#include "models/needed_tensors.h"

namespace moec {
namespace {

struct Release {
  const char* name;
  int64_t parameters;  // counted from the sizes by hand; equal to the published rounded number
  const char* config;
};

void PrintTo(const Release& release, std::ostream* out) { *out << release.name; }

const Release kReleases[] = {
    {"mixtral_8x7b", 46'702'792'704, R"({"model_type": "mixtral", "hidden_size": 4096,
      "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
      "vocab_size": 32000, "max_position_embeddings": 32768, "rms_norm_eps": 1e-05,
      "rope_theta": 1e6, "hidden_act": "silu"})"},
    {"qwen2_57b", 57'408'658'944, R"({"model_type": "qwen2_moe", "hidden_size": 3584,
      "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
      "num_key_value_heads": 4, "num_experts": 64, "num_experts_per_tok": 8,
      "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480,
      "vocab_size": 151936, "max_position_embeddings": 32768, "rms_norm_eps": 1e-06,
      "rope_theta": 1e6, "hidden_act": "silu", "norm_topk_prob": false})"},
    {"qwen3_235b", 235'093'634'560, R"({"model_type": "qwen3_moe", "hidden_size": 4096,
      "intermediate_size": 12288, "num_hidden_layers": 94, "num_attention_heads": 64,
      "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
      "moe_intermediate_size": 1536, "vocab_size": 151936, "max_position_embeddings": 40960,
      "rms_norm_eps": 1e-06, "rope_theta": 1e6, "hidden_act": "silu", "norm_topk_prob": true})"},
    {"olmoe_7b", 6'919'161'856, R"({"model_type": "olmoe", "hidden_size": 2048,
      "intermediate_size": 1024, "num_hidden_layers": 16, "num_attention_heads": 16,
      "num_experts": 64, "num_experts_per_tok": 8, "vocab_size": 50304,
      "max_position_embeddings": 4096, "hidden_act": "silu"})"},
    {"granite_1b", 1'334'628'352, R"({"model_type": "granitemoe", "hidden_size": 1024,
      "intermediate_size": 512, "num_hidden_layers": 24, "num_attention_heads": 16,
      "num_key_value_heads": 8, "num_local_experts": 32, "num_experts_per_tok": 8,
      "vocab_size": 49155, "max_position_embeddings": 4096, "rms_norm_eps": 1e-06,
      "rope_theta": 10000, "hidden_act": "silu", "tie_word_embeddings": true,
      "embedding_multiplier": 12.0, "attention_multiplier": 0.015625,
      "residual_multiplier": 0.22, "logits_scaling": 6.0})"},
    {"granite_3b", 3'298'793'472, R"({"model_type": "granitemoe", "hidden_size": 1536,
      "intermediate_size": 512, "num_hidden_layers": 32, "num_attention_heads": 24,
      "num_key_value_heads": 8, "num_local_experts": 40, "num_experts_per_tok": 8,
      "vocab_size": 49155, "max_position_embeddings": 4096, "rms_norm_eps": 1e-06,
      "rope_theta": 10000, "hidden_act": "silu", "tie_word_embeddings": true,
      "embedding_multiplier": 12.0, "attention_multiplier": 0.015625,
      "residual_multiplier": 0.22, "logits_scaling": 6.0})"},
};

class PublishedSizes : public testing::TestWithParam<Release> {};

TEST_P(PublishedSizes, ParametersAreCountedExactly) {
  auto config = read_config(GetParam().config, "config.json");
  ASSERT_TRUE(config.has_value()) << render(config.error());
  int64_t parameters = 0;
  for (const auto& [name, tensor] : declared_weights(config->model, DType::bf16).tensors)
    parameters += tensor.type.elements();
  EXPECT_EQ(parameters, GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(All, PublishedSizes, testing::ValuesIn(kReleases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace moec
