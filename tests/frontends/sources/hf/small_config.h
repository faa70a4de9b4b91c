// Small configs for family tests.
#pragma once

#include <fmt/format.h>

#include <string>

#include "frontends/sources/hf/config.h"
#include "models/shards/needed_tensors.h"
#include "tests/models/expect_error.h"

namespace moec {

// Returns a small config with additional members.
inline std::string small_text(const std::string& family, const std::string& members) {
  const bool latent = family.starts_with("deepseek") || family.starts_with("kimi") ||
                      family == "glm4_moe_lite" || family == "sarvam_mla" ||
                      family == "glm_moe_dsa" || family == "axk1" || family == "mistral4" ||
                      family == "bailing_hybrid";
  return fmt::format(R"({{"model_type": "{}", "hidden_size": 32, "num_hidden_layers": 4,
      "num_attention_heads": 4, "num_key_value_heads": {}, "vocab_size": 50,
      "max_position_embeddings": 64, "rms_norm_eps": 1e-06, "hidden_act": "silu", {}{}}})",
                     family, latent ? 4 : 2, latent ? "" : "\"head_dim\": 8, ", members);
}

inline ModelConfig small_model(const std::string& family, const std::string& members) {
  auto config = read_config(small_text(family, members), "config.json");
  EXPECT_TRUE(config.has_value()) << render(config.error());
  return config ? std::move(config->model) : ModelConfig{};
}

inline void expect_family_refused(const std::string& family, const std::string& members,
                                  const std::string& code, const std::string& part) {
  expect_error(read_config(small_text(family, members), "config.json"), code, part);
}

inline Dims tensor_dims(const ModelConfig& model, const std::string& tensor) {
  const WeightTable table = declared_weights(model, DType::bf16);
  const TensorRange* found = table.find(tensor);
  return found == nullptr ? Dims{} : found->type.dims;
}

}  // namespace moec
