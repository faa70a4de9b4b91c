// The exact number of parameters of releases whose configs are not in models/published/: their
// configs reduced to the keys that matter here.
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
    {"glm_air", 106'852'251'264, R"({"model_type": "glm4_moe", "hidden_size": 4096,
      "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 46,
      "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128,
      "n_routed_experts": 128, "num_experts_per_tok": 8, "n_shared_experts": 1, "n_group": 1,
      "topk_group": 1, "first_k_dense_replace": 1, "norm_topk_prob": true,
      "routed_scaling_factor": 1.0, "use_qk_norm": false, "attention_bias": true,
      "partial_rotary_factor": 0.5, "vocab_size": 151552, "max_position_embeddings": 131072,
      "rms_norm_eps": 1e-05, "rope_theta": 1e6, "hidden_act": "silu",
      "num_nextn_predict_layers": 1})"},
    {"minimax_m2", 228'689'764'864, R"({"model_type": "minimax_m2", "hidden_size": 3072,
      "intermediate_size": 1536, "num_hidden_layers": 62, "num_attention_heads": 48,
      "num_key_value_heads": 8, "head_dim": 128, "num_local_experts": 256,
      "num_experts_per_tok": 8, "rotary_dim": 64, "scoring_func": "sigmoid",
      "use_routing_bias": true, "use_qk_norm": true, "qk_norm_type": "per_layer",
      "shared_intermediate_size": 0, "vocab_size": 200064, "max_position_embeddings": 196608,
      "rms_norm_eps": 1e-06, "rope_theta": 5e6, "hidden_act": "silu"})"},
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
