// Configs of dense families, the baselines of MoE models.
#include <gmock/gmock.h>

#include "tests/frontends/sources/hf/small_config.h"

namespace moec {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr const char* kDenseFamilies[] = {"llama", "mistral", "qwen2", "qwen3"};
constexpr const char* kDenseWidth = R"("intermediate_size": 20)";
constexpr const char* kLayer = "model.layers.3.";

std::string dense(const std::string& members) { return kDenseWidth + members; }

std::vector<int64_t> windows_of(const std::string& family, const std::string& members) {
  std::vector<int64_t> windows;
  for (const LayerConfig& layer : small_model(family, dense(members)).layers)
    windows.push_back(layer.window);
  return windows;
}

TEST(DenseConfig, ReadsFamiliesWithoutExperts) {
  for (const std::string family : kDenseFamilies) {
    const ModelConfig model = small_model(family, kDenseWidth);
    EXPECT_EQ(model.moe, MoeConfig{}) << family;
    for (const LayerConfig& layer : model.layers) EXPECT_FALSE(layer.moe) << family;
    EXPECT_EQ(model.mlp.ff, 20) << family;
    EXPECT_EQ(tensor_dims(model, std::string(kLayer) + "mlp.gate_proj.weight"), (Dims{20, 32}));
    EXPECT_EQ(tensor_dims(model, std::string(kLayer) + "mlp.down_proj.weight"), (Dims{32, 20}));
    expect_family_refused(family, dense(R"(, "num_experts": 4)"), "hf.config.unknown_key",
                          "num_experts");
  }
}

TEST(DenseConfig, TiesTheHeadIfConfigured) {
  for (const std::string family : kDenseFamilies) {
    EXPECT_FALSE(small_model(family, kDenseWidth).head.tied) << family;
    const ModelConfig tied = small_model(family, dense(R"(, "tie_word_embeddings": true)"));
    EXPECT_TRUE(tied.head.tied) << family;
    EXPECT_EQ(tensor_dims(tied, "lm_head.weight"), (Dims{})) << family;
  }
}

// Reads the small config with another activation.
std::string activated(const std::string& family, const std::string& name) {
  std::string text = small_text(family, kDenseWidth);
  const std::string usual = R"("silu")";
  return text.replace(text.find(usual), usual.size(), '"' + name + '"');
}

TEST(DenseConfig, AcceptsEquivalentActivations) {
  for (const std::string family : kDenseFamilies) {
    const auto read = [&](const std::string& name) {
      return read_config(activated(family, name), "config.json");
    };
    EXPECT_EQ(read("swish").value().model.mlp.gating.activation, Activation::silu) << family;
    EXPECT_EQ(read("gelu_pytorch_tanh").value().model.mlp.gating.activation, Activation::gelu_tanh)
        << family;
    for (const std::string other : {"gelu", "relu"})
      expect_error(read(other), "hf.config.unknown_activation", other);
  }
}

// These classes compute longrope factors differently from Phi; only Phi's factors are supported.
TEST(DenseConfig, RejectsUnsupportedRotations) {
  for (const std::string family : kDenseFamilies) {
    for (const std::string type : {"longrope", "proportional"})
      expect_family_refused(
          family, dense(R"(, "rope_scaling": {"factor": 2.0, "rope_type": ")" + type + "\"}"),
          "hf.config.unsupported_value",
          "the rope type is \"" + type + "\"; for the family " + family);
    expect_family_refused(family, dense(R"(, "rope_parameters": {"rope_type": "default",
                                           "rope_theta": 100.0, "partial_rotary_factor": 0.5})"),
                          "hf.config.unsupported_value", "partial_rotary_factor");
  }
}

TEST(DenseConfig, ReadsSupportedRotations) {
  using enum RopeScaling;
  for (const std::string family : kDenseFamilies) {
    auto scaling = [&](const std::string& members) {
      return small_model(family, dense(R"(, "rope_scaling": {)" + members + "}"))
          .attention.rope.scaling;
    };
    EXPECT_EQ(scaling(R"("rope_type": "linear", "factor": 2.0)"), linear) << family;
    EXPECT_EQ(scaling(R"("type": "dynamic", "factor": 2.0)"), none) << family;
    EXPECT_EQ(scaling(R"("rope_type": "yarn", "factor": 2.0,
                         "original_max_position_embeddings": 32)"),
              yarn)
        << family;
    EXPECT_EQ(scaling(R"("rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 32)"),
              llama3)
        << family;
  }
}

TEST(LlamaConfig, ReadsBiasesOfAttentionAndMlps) {
  const ModelConfig plain = small_model("llama", kDenseWidth);
  EXPECT_FALSE(plain.attention.qkv_bias || plain.attention.o_bias || plain.mlp.bias);
  const ModelConfig attention = small_model("llama", dense(R"(, "attention_bias": true)"));
  EXPECT_EQ(tensor_dims(attention, std::string(kLayer) + "self_attn.o_proj.bias"), (Dims{32}));
  EXPECT_EQ(tensor_dims(attention, std::string(kLayer) + "mlp.up_proj.bias"), (Dims{}));
  const ModelConfig mlp = small_model("llama", dense(R"(, "mlp_bias": true)"));
  EXPECT_EQ(tensor_dims(mlp, std::string(kLayer) + "self_attn.q_proj.bias"), (Dims{}));
  EXPECT_EQ(tensor_dims(mlp, std::string(kLayer) + "mlp.up_proj.bias"), (Dims{20}));
  EXPECT_EQ(tensor_dims(mlp, std::string(kLayer) + "mlp.down_proj.bias"), (Dims{32}));
}

TEST(LlamaConfig, RejectsWindows) {
  expect_family_refused("llama", dense(R"(, "sliding_window": 8)"), "hf.config.unknown_key",
                        "sliding_window");
}

TEST(MistralConfig, AppliesItsWindowToAllLayers) {
  EXPECT_THAT(windows_of("mistral", ""), Each(4096)) << "the default of the class";
  EXPECT_THAT(windows_of("mistral", R"(, "sliding_window": 8)"), Each(8));
  EXPECT_THAT(windows_of("mistral", R"(, "sliding_window": null)"), Each(0));
  expect_family_refused("mistral", dense(R"(, "sliding_window": 0)"), "hf.config.window",
                        "hides every other token");
  EXPECT_THAT(windows_of("mistral", R"(, "sliding_window": 8, "layer_types": ["full_attention",
                             "sliding_attention", "full_attention", "sliding_attention"])"),
              ElementsAre(0, 8, 0, 8));
}

TEST(QwenConfig, AppliesWindowsFromAConfiguredLayer) {
  for (const std::string family : {"qwen2", "qwen3"}) {
    auto windows = [&](const std::string& members) {
      return windows_of(family, R"(, "sliding_window": 8, "max_window_layers": 3)" + members);
    };
    EXPECT_THAT(windows(""), Each(0)) << "use_sliding_window is false by default";
    EXPECT_THAT(windows(R"(, "use_sliding_window": true)"), ElementsAre(0, 0, 0, 8)) << family;
    EXPECT_THAT(windows(R"(, "use_sliding_window": true, "layer_types": ["sliding_attention",
                           "full_attention", "sliding_attention", "full_attention"])"),
                ElementsAre(8, 0, 8, 0))
        << family;
  }
}

TEST(QwenConfig, RejectsWindowsOfSizeZero) {
  for (const std::string family : {"qwen2", "qwen3"}) {
    const std::string empty = R"(, "use_sliding_window": true, "sliding_window": 0)";
    expect_family_refused(family, dense(empty + R"(, "max_window_layers": 3)"), "hf.config.window",
                          "hides every other token");
    EXPECT_THAT(windows_of(family, empty + R"(, "max_window_layers": 4)"), Each(0)) << family;
    expect_family_refused(family, dense(R"(, "layer_types": ["sliding_attention",
                                           "full_attention", "full_attention", "full_attention"])"),
                          "hf.config.window",
                          "layer 0 has a sliding window, but its width is not set");
  }
}

TEST(Qwen2Config, ReadsBiasesOfQueriesKeysValues) {
  const ModelConfig model = small_model("qwen2", kDenseWidth);
  EXPECT_EQ(tensor_dims(model, std::string(kLayer) + "self_attn.k_proj.bias"), (Dims{16}));
  EXPECT_EQ(tensor_dims(model, std::string(kLayer) + "self_attn.o_proj.bias"), (Dims{}));
  expect_family_refused("qwen2", dense(R"(, "use_mrope": true)"), "hf.config.unsupported_value",
                        "use_mrope");
}

TEST(Qwen3Config, NormalizesHeadsAndReadsBiases) {
  const ModelConfig model = small_model("qwen3", kDenseWidth);
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::per_head);
  EXPECT_EQ(tensor_dims(model, std::string(kLayer) + "self_attn.q_norm.weight"), (Dims{8}));
  EXPECT_EQ(tensor_dims(model, std::string(kLayer) + "self_attn.q_proj.bias"), (Dims{}));
  const ModelConfig biased = small_model("qwen3", dense(R"(, "attention_bias": true)"));
  EXPECT_EQ(tensor_dims(biased, std::string(kLayer) + "self_attn.q_proj.bias"), (Dims{32}));
  EXPECT_EQ(tensor_dims(biased, std::string(kLayer) + "self_attn.o_proj.bias"), (Dims{32}));
}

}  // namespace
}  // namespace moec
