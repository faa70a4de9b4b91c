// Configs of kimi_linear.
#include <gmock/gmock.h>

#include <cmath>

#include "frontends/sources/hf/config.h"
#include "tests/frontends/sources/hf/layer_lists.h"
#include "tests/frontends/sources/hf/small_config.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

constexpr const char* kKimiLinear = "kimi_linear";

std::string kimi_linear_members(const std::string& members) {
  return R"("kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5,
      "intermediate_size": 24, "moe_intermediate_size": 12, "num_experts": 8,
      "num_experts_per_token": 2)" +
         members;
}

// Returns one letter per layer: attention or the delta rule.
std::string delta_letters(const ModelConfig& model) {
  std::string all;
  for (const LayerConfig& layer : model.layers)
    all += layer.mixer == MixerKind::kimi_delta ? 'k' : 'a';
  return all;
}

std::string layer_lists(const std::string& attention, const std::string& mixers) {
  return R"(, "linear_attn_config": {"full_attn_layers": )" + attention + R"(, "kda_layers": )" +
         mixers + R"(, "head_dim": 6, "num_heads": 3, "short_conv_kernel_size": 3})";
}

TEST(KimiLinearConfig, ReadsSizes) {
  const ModelConfig model =
      small_model(kKimiLinear, kimi_linear_members(layer_lists("[2, 4]", "[1, 3]")));
  EXPECT_EQ(delta_letters(model), "kaka");
  const RecurrentConfig wanted{.taps = 3,
                               .channels = 54,
                               .bias = false,
                               .map_bias = false,
                               .key_heads = 3,
                               .value_heads = 3,
                               .key_dim = 6,
                               .value_dim = 6,
                               .least_log_decay = std::nullopt};
  EXPECT_EQ(model.recurrent, wanted);
  EXPECT_EQ(model.attention.rope.style, RopeStyle::none);
  EXPECT_EQ(model.attention.latent->shared_dims, 4);
  EXPECT_DOUBLE_EQ(model.attention.scale, 1 / std::sqrt(10.0));
  EXPECT_EQ(model.rotations().size(), 0u);
  const std::string delta = "model.layers.0.self_attn.", latent = "model.layers.1.self_attn.";
  EXPECT_EQ(tensor_dims(model, delta + "q_proj.weight"), (Dims{18, 32}));
  EXPECT_EQ(tensor_dims(model, delta + "k_conv1d.weight"), (Dims{18, 1, 3}));
  EXPECT_EQ(tensor_dims(model, delta + "A_log"), (Dims{1, 1, 3, 1}));
  EXPECT_EQ(tensor_dims(model, delta + "dt_bias"), (Dims{18}));
  EXPECT_EQ(tensor_dims(model, delta + "f_a_proj.weight"), (Dims{6, 32}));
  EXPECT_EQ(tensor_dims(model, delta + "g_b_proj.weight"), (Dims{18, 6}));
  EXPECT_EQ(tensor_dims(model, latent + "q_proj.weight"), (Dims{40, 32}));
  EXPECT_EQ(tensor_dims(model, latent + "kv_a_proj_with_mqa.weight"), (Dims{14, 32}));
}

TEST(KimiLinearConfig, ReadsReleaseAndTransformersNames) {
  const ModelConfig release =
      small_model(kKimiLinear,
                  kimi_linear_members(
                      layer_lists("[2]", "[1, 3, 4]") +
                      R"(, "num_shared_experts": 2, "moe_renormalize": false, "num_expert_group": 2,
                  "topk_group": 1, "first_k_dense_replace": 2)"));
  const ModelConfig today = small_model(
      kKimiLinear,
      R"("kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5,
      "intermediate_size": 24, "moe_intermediate_size": 12, "num_local_experts": 8,
      "num_experts_per_tok": 2, "n_shared_experts": 2, "norm_topk_prob": false, "n_group": 2,
      "topk_group": 1, "linear_head_dim": 6, "linear_num_heads": 3, "linear_conv_kernel_dim": 3,
      "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"],
      "mlp_layer_types": ["dense", "dense", "sparse", "sparse"])");
  EXPECT_EQ(release.layers, today.layers);
  EXPECT_EQ(release.attention, today.attention);
  EXPECT_EQ(release.recurrent, today.recurrent);
  EXPECT_EQ(release.moe, today.moe);
  EXPECT_EQ(release.moe.routing.groups, 2);
  EXPECT_EQ(release.moe.shared_ff, 24);
  EXPECT_EQ(release.moe.routing.renorm, Renorm::none);
  EXPECT_EQ(moe_layers(release), (std::vector<bool>{false, false, true, true}));
}

TEST(KimiLinearConfig, UsesClassDefaultsWithoutLists) {
  EXPECT_EQ(delta_letters(small_model(kKimiLinear, kimi_linear_members(""))), "kkkk")
      << "the first attention layer is layer 4";
}

TEST(KimiLinearConfig, RequiresEachLayerInOneList) {
  const auto refused = [](const std::string& members, const std::string& code,
                          const std::string& part) {
    expect_family_refused(kKimiLinear, kimi_linear_members(members), code, part);
  };
  refused(layer_lists("[2]", "[1, 3]"), "hf.config.layer_types",
          "neither \"linear_attn_config.full_attn_layers\" nor \"linear_attn_config.kda_layers\" "
          "names layer 4");
  refused(layer_lists("[2, 3]", "[1, 3, 4]"), "hf.config.layer_types", "name layer 3 twice");
  refused(
      layer_lists("[0, 2]", "[1, 3]"), "hf.config.layer_types",
      "\"linear_attn_config.full_attn_layers\" contains 0, but layers are numbered from 1 to 4");
  refused(layer_lists("[2]", "[1, 3, 4, 5]"), "hf.config.layer_types", "numbered from 1 to 4");
  refused(R"(, "linear_attn_config": {"kda_layers": [1, 2, 3, 4]})", "hf.config.layer_types",
          "is given without \"linear_attn_config.full_attn_layers\"");
  refused(
      layer_lists("[2]", "[1, 3, 4]") + R"(, "layer_types": ["linear_attention", "linear_attention",
          "full_attention", "linear_attention"])",
      "hf.config.conflict",
      "\"layer_types\" and \"linear_attn_config.full_attn_layers\" specify different mixers for "
      "layer "
      "2");
}

TEST(KimiLinearConfig, RejectsValuesTheClassCannotCompute) {
  const auto refused = [](const std::string& members, const std::string& part) {
    expect_family_refused(kKimiLinear, kimi_linear_members(members), "hf.config.unsupported_value",
                          part);
  };
  refused(R"(, "mla_use_nope": false)", "latent attention does not rotate");
  refused(R"(, "tie_word_embeddings": true)", "tie_word_embeddings");
  refused(R"(, "moe_router_activation_func": "softmax")", "it must be sigmoid");
  expect_family_refused(
      kKimiLinear, kimi_linear_members(R"(, "linear_attn_config": {"gate_lower_bound": -5.0})"),
      "hf.config.unknown_key", "linear_attn_config.gate_lower_bound");
}

}  // namespace
}  // namespace moec
