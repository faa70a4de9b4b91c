// Configs of further families: every key that changes the computation.
#include <fmt/format.h>

#include "frontends/sources/hf/config.h"
#include "models/shards/needed_tensors.h"
#include "tests/files.h"
#include "tests/frontends/sources/hf/layer_lists.h"
#include "tests/frontends/sources/hf/small_config.h"
#include "tests/models/expect_error.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

const char* const kGranite = R"("num_local_experts": 4, "num_experts_per_tok": 2,
    "intermediate_size": 12)";

TEST(FamilyConfig, GraniteReadsMultipliers) {
  ModelConfig model =
      small_model("granitemoe", std::string(kGranite) + R"(, "embedding_multiplier": 12,
      "attention_multiplier": 0.25, "residual_multiplier": 0.22, "logits_scaling": 6)");
  EXPECT_EQ(model.stream.embedding_scale, 12);
  EXPECT_EQ(model.attention.scale, 0.25);
  EXPECT_EQ(model.stream.residual_scale, 0.22);
  EXPECT_EQ(model.head.divisor, 6);
  EXPECT_EQ(model.moe.routing.score, Score::softmax_selected);
  EXPECT_EQ(model.moe.routing.renorm, Renorm::none);
  model = small_model("granitemoe", kGranite);
  EXPECT_EQ(model.stream.embedding_scale, 1);
  EXPECT_EQ(model.attention.scale, 1) << "not head_dim^-1/2";
}

TEST(FamilyConfig, GraniteFusesTheSharedExpert) {
  ModelConfig model = small_model("granitemoeshared",
                                  std::string(kGranite) + R"(, "shared_intermediate_size": 20)");
  EXPECT_EQ(tensor_dims(model, "model.layers.0.shared_mlp.input_linear.weight"), (Dims{40, 32}));
  EXPECT_EQ(tensor_dims(model, "model.layers.0.shared_mlp.output_linear.weight"), (Dims{32, 20}));
}

const char* const kGlm = R"("n_routed_experts": 6, "num_experts_per_tok": 2,
    "moe_intermediate_size": 12, "intermediate_size": 24, "n_shared_experts": 2, "n_group": 2,
    "topk_group": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5)";

TEST(FamilyConfig, ReadsGlm) {
  ModelConfig model = small_model("glm4_moe", std::string(kGlm) + R"(, "attention_bias": true,
      "num_nextn_predict_layers": 1)");
  EXPECT_EQ(moe_layers(model), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(model.attention.rope.dims, 4) << "half of each head";
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::none) << "only if use_qk_norm is true";
  EXPECT_TRUE(model.attention.qkv_bias);
  EXPECT_FALSE(model.attention.o_bias);
  EXPECT_EQ(model.moe.shared_ff, 24);
  const Router wanted{.score = Score::sigmoid,
                      .top_k = 2,
                      .renorm = Renorm::sum_plus_eps,
                      .eps = 1e-20,
                      .scale = 2.5,
                      .groups = 2,
                      .groups_kept = 1,
                      .group_score = GroupScore::top2_sum};
  EXPECT_EQ(model.moe.routing, wanted);
  EXPECT_TRUE(model.moe.choice_bias);
  model = small_model("glm4_moe", std::string(kGlm) + R"(, "use_qk_norm": true)");
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::per_head);
  expect_family_refused("glm4_moe", std::string(kGlm) + R"(, "topk_method": "greedy")",
                        "hf.config.unsupported_value", "\"topk_method\" is \"greedy\"");
}

const char* const kMinimax = R"("num_local_experts": 4, "num_experts_per_tok": 2,
    "intermediate_size": 12)";

TEST(FamilyConfig, MinimaxRotatesPartOfEachHead) {
  auto rotated = [](const char* members) {
    return small_model("minimax_m2", std::string(kMinimax) + members).attention.rope.dims;
  };
  EXPECT_EQ(rotated(""), 8);
  EXPECT_EQ(rotated(R"(, "rotary_dim": 4)"), 4);
  EXPECT_EQ(rotated(R"(, "rope_parameters": {"rope_theta": 5e6, "partial_rotary_factor": 0.5})"),
            4);
  EXPECT_EQ(rotated(R"(, "rotary_dim": 4, "rope_parameters": {"partial_rotary_factor": 0.5})"), 4);
  expect_family_refused(
      "minimax_m2",
      std::string(kMinimax) +
          R"(, "rotary_dim": 2, "rope_parameters": {"partial_rotary_factor": 0.5})",
      "hf.config.conflict", "\"rotary_dim\" is 2, but \"partial_rotary_factor\" implies 4");
}

TEST(FamilyConfig, MinimaxReadsTheCorrectionBias) {
  ModelConfig model = small_model("minimax_m2", kMinimax);
  EXPECT_TRUE(model.moe.choice_bias);
  EXPECT_EQ(model.moe.routing.score, Score::sigmoid);
  EXPECT_EQ(tensor_dims(model, "model.layers.0.block_sparse_moe.e_score_correction_bias"),
            (Dims{4}));
  EXPECT_EQ(tensor_dims(model, "model.layers.0.self_attn.q_norm.weight"), (Dims{32}))
      << "full width";
  EXPECT_FALSE(small_model("minimax_m2", std::string(kMinimax) + R"(, "use_routing_bias": false)")
                   .moe.choice_bias);
}

// The released config states softmax attention in each layer and multi-token prediction layers.
TEST(FamilyConfig, MinimaxReadsReleaseKeys) {
  const auto with_types = [](const char* types) {
    return std::string(kMinimax) + R"(, "use_mtp": true, "num_mtp_modules": 3,
        "mtp_transformer_layers": 1, "attn_type_list": )" +
           types;
  };
  small_model("minimax_m2", with_types("[1, 1, 1, 1]"));
  expect_family_refused(
      "minimax_m2", with_types("[1, 1, 0, 1]"), "hf.config.unsupported_value",
      "\"attn_type_list\" is [1, 1, 0, 1]; for the family minimax_m2 it must be 1");
  expect_family_refused("minimax_m2", with_types("[1, 1]"), "hf.config.layer_types",
                        "\"attn_type_list\" has 2 entries for 4 layers");
}

const char* const kErnie = R"("moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 12,
    "intermediate_size": 24)";

TEST(FamilyConfig, ErnieReadsMoeLayers) {
  auto layers = [](const char* members) {
    return moe_layers(small_model("ernie4_5_moe", std::string(kErnie) + members));
  };
  EXPECT_EQ(layers(""), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(layers(R"(, "moe_layer_end_index": -1)"), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(layers(R"(, "moe_layer_start_index": 0, "moe_layer_end_index": 2)"),
            (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(layers(R"(, "moe_layer_start_index": 0, "moe_layer_interval": 2)"),
            (std::vector<bool>{false, true, false, true}));
}

TEST(FamilyConfig, ErnieReadsBiases) {
  const ModelConfig model =
      small_model("ernie4_5_moe", std::string(kErnie) + R"(, "use_bias": true)");
  EXPECT_TRUE(model.mlp.bias);
  EXPECT_FALSE(model.moe.expert_biases);
  EXPECT_EQ(tensor_dims(model, "lm_head.bias"), (Dims{model.vocab}));
  for (const char* name :
       {"0.self_attn.o_proj.bias", "0.mlp.down_proj.bias", "1.mlp.shared_experts.down_proj.bias"})
    EXPECT_EQ(tensor_dims(model, std::string("model.layers.") + name), (Dims{model.hidden}))
        << name;
}

TEST(FamilyConfig, ErnieStoresBiasesAsRows) {
  ModelConfig model = small_model("ernie4_5_moe", kErnie);
  EXPECT_EQ(tensor_dims(model, "model.layers.1.mlp.moe_statics.e_score_correction_bias"),
            (Dims{1, 4}));
  EXPECT_EQ(model.moe.routing.renorm, Renorm::max_eps);
  EXPECT_EQ(model.moe.routing.eps, 1e-12);
  EXPECT_EQ(model.attention.rope.style, RopeStyle::interleaved);
  EXPECT_EQ(model.moe.shared_ff, 24);
}

TEST(FamilyConfig, ErnieReadsReleaseKeys) {
  const auto with_gate = [](const char* gate) {
    return std::string(kErnie) + R"(, "use_rmsnorm": true, "is_quantized": false,
        "moe_capacity": [64, 64, 64], "num_nextn_predict_layers": 1, "moe_gate": )" +
           gate;
  };
  small_model("ernie4_5_moe", with_gate("\"topk\""));
  expect_family_refused("ernie4_5_moe", with_gate("\"hash\""), "hf.config.unsupported_value",
                        "\"moe_gate\" is \"hash\"");
}

const char* const kDeepseek = R"("n_routed_experts": 6, "num_experts_per_tok": 2,
    "moe_intermediate_size": 12, "intermediate_size": 24, "n_shared_experts": 1,
    "kv_lora_rank": 10, "qk_nope_head_dim": 5, "qk_rope_head_dim": 4, "v_head_dim": 7,
    "n_group": 3, "topk_group": 2)";

TEST(FamilyConfig, DeepseekReadsLatentAttention) {
  ModelConfig model = small_model("deepseek_v3", std::string(kDeepseek) + R"(, "q_lora_rank": 6)");
  const AttentionConfig& attention = model.attention;
  ASSERT_TRUE(attention.latent.has_value());
  EXPECT_EQ(*attention.latent, (LatentConfig{6, 10, 4, 5, 7, 1e-6, false}));
  EXPECT_EQ(attention.kv_heads, 1);
  EXPECT_EQ(attention.head_dim, 14) << "the rotated dims and the latent";
  EXPECT_EQ(attention.value_dim, 10) << "the latent";
  EXPECT_EQ(attention.rope.dims, 4);
  EXPECT_DOUBLE_EQ(attention.scale, 1 / 3.0) << "of 5 + 4 dims";
  const std::string layer = "model.layers.0.self_attn.";
  EXPECT_EQ(tensor_dims(model, layer + "q_a_proj.weight"), (Dims{6, 32}));
  EXPECT_EQ(tensor_dims(model, layer + "q_b_proj.weight"), (Dims{4 * 9, 6}));
  EXPECT_EQ(tensor_dims(model, layer + "kv_a_proj_with_mqa.weight"), (Dims{14, 32}));
  EXPECT_EQ(tensor_dims(model, layer + "kv_b_proj.weight"), (Dims{4 * 12, 10}));
  EXPECT_EQ(tensor_dims(model, layer + "o_proj.weight"), (Dims{32, 28}));
}

TEST(FamilyConfig, DeepseekReadsQueriesWithoutALatent) {
  ModelConfig model =
      small_model("deepseek_v2", std::string(kDeepseek) + R"(, "q_lora_rank": null)");
  EXPECT_EQ(model.attention.latent->q_rank, 0);
  EXPECT_EQ(tensor_dims(model, "model.layers.0.self_attn.q_proj.weight"), (Dims{36, 32}));
}

TEST(FamilyConfig, DeepseekAppliesYarnMscaleToScale) {
  const char* const yarn = R"(, "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0,
      "mscale_all_dim": 1.0, "original_max_position_embeddings": 32})";
  ModelConfig model = small_model("deepseek_v3", std::string(kDeepseek) + yarn);
  EXPECT_NEAR(model.attention.scale, 1.8739 / 3, 1e-4);
}

TEST(FamilyConfig, DeepseekGroupsOnlyForGroupMethods) {
  auto groups = [](const char* method) {
    return small_model("deepseek_v2", std::string(kDeepseek) + method).moe.routing.groups;
  };
  EXPECT_EQ(groups(""), 1) << "greedy";
  EXPECT_EQ(groups(R"(, "topk_method": "group_limited_greedy")"), 3);
  EXPECT_EQ(small_model("deepseek_v3", kDeepseek).moe.routing.groups, 3);
  expect_family_refused("deepseek_v2", std::string(kDeepseek) + R"(, "topk_method": "best")",
                        "hf.config.unknown_choice", "unknown choice method \"best\"");
  expect_family_refused("deepseek_v3", std::string(kDeepseek) + R"(, "topk_method": "greedy")",
                        "hf.config.unsupported_value", "must be noaux_tc");
}

TEST(FamilyConfig, DeepseekReadsBiases) {
  const std::string layer = "model.layers.0.self_attn.";
  for (const char* family : {"deepseek_v2", "deepseek_v3"}) {
    const ModelConfig model = small_model(
        family, std::string(kDeepseek) + R"(, "q_lora_rank": 6, "attention_bias": true)");
    EXPECT_EQ(tensor_dims(model, layer + "q_a_proj.bias"), (Dims{6}));
    EXPECT_EQ(tensor_dims(model, layer + "kv_a_proj_with_mqa.bias"),
              (Dims{model.attention.latent->kv_rank + model.attention.rope.dims}));
    EXPECT_EQ(tensor_dims(model, layer + "o_proj.bias"), (Dims{model.hidden}));
  }
  EXPECT_TRUE(
      small_model("deepseek_v2", std::string(kDeepseek) + R"(, "mlp_bias": true)").mlp.bias);
}

TEST(FamilyConfig, DeepseekRotatesHalvesWithoutInterleaving) {
  auto style = [](const std::string& members) {
    return small_model("deepseek_v3", kDeepseek + members).attention.rope.style;
  };
  EXPECT_EQ(style(""), RopeStyle::interleaved);
  EXPECT_EQ(style(R"(, "rope_interleave": false)"), RopeStyle::half);
}

// transformers treats null as false; a reader that applied the default would use true.
TEST(FamilyConfig, RejectsNullForEnabledSwitches) {
  for (const std::string key : {"rope_interleave", "norm_topk_prob"})
    expect_family_refused("deepseek_v3", kDeepseek + (", \"" + key + "\": null"), "hf.config.type",
                          "\"" + key + "\" is null");
  EXPECT_FALSE(small_model("deepseek_v3", std::string(kDeepseek) + R"(, "attention_bias": null)")
                   .attention.qkv_bias);
}

const char* const kGptOss = R"("num_local_experts": 4, "num_experts_per_tok": 2,
    "intermediate_size": 12, "sliding_window": 8)";

TEST(FamilyConfig, ReadsGptOss) {
  ModelConfig model = small_model("gpt_oss", kGptOss);
  EXPECT_EQ(model.mlp.gating, (Gating{Activation::clamped_swiglu, 7, 1.702}));
  EXPECT_TRUE(model.attention.sinks);
  EXPECT_TRUE(model.attention.qkv_bias);
  EXPECT_TRUE(model.attention.o_bias);
  EXPECT_TRUE(model.moe.router_map.bias);
  EXPECT_TRUE(model.moe.expert_biases);
  EXPECT_EQ(model.moe.gate_up_order, GateUpOrder::interleaved);
  EXPECT_EQ(model.moe.routing, (Router{.score = Score::softmax_selected, .top_k = 2}));
  std::vector<int64_t> windows;
  for (const LayerConfig& layer : model.layers) windows.push_back(layer.window);
  EXPECT_EQ(windows, (std::vector<int64_t>{8, 0, 8, 0}));
}

TEST(FamilyConfig, GptOssReadsTheActivation) {
  const std::string config(kGptOss);
  EXPECT_EQ(
      small_model("gpt_oss", config + R"(, "swiglu_limit": 10.0, "swiglu_alpha": 1.5)").mlp.gating,
      (Gating{Activation::clamped_swiglu, 10, 1.5}));
  expect_family_refused("gpt_oss", config + R"(, "swiglu_limit": 0)", "model.number",
                        "the limit of clamped_swiglu is 0");
}

TEST(FamilyConfig, GptOssReadsTransposedExperts) {
  ModelConfig model = small_model("gpt_oss", kGptOss);
  const std::string layer = "model.layers.1.";
  EXPECT_EQ(tensor_dims(model, layer + "mlp.experts.gate_up_proj"), (Dims{4, 32, 24}));
  EXPECT_EQ(tensor_dims(model, layer + "mlp.experts.down_proj"), (Dims{4, 12, 32}));
  EXPECT_EQ(tensor_dims(model, layer + "mlp.experts.gate_up_proj_bias"), (Dims{4, 24}));
  EXPECT_EQ(tensor_dims(model, layer + "mlp.experts.down_proj_bias"), (Dims{4, 32}));
  EXPECT_EQ(tensor_dims(model, layer + "mlp.router.bias"), (Dims{4}));
  EXPECT_EQ(tensor_dims(model, layer + "self_attn.sinks"), (Dims{4}));
  EXPECT_EQ(tensor_dims(model, layer + "self_attn.o_proj.bias"), (Dims{32}));
}

const char* const kPrivacy = R"("num_local_experts": 4, "num_experts_per_tok": 2,
    "intermediate_size": 12, "sliding_window": 3)";

std::string with_labels(const std::string& labels) {
  return fmt::format(R"({}, "id2label": {})", kPrivacy, labels);
}

TEST(FamilyConfig, PrivacyFilterAttendsInBothDirections) {
  ModelConfig model =
      small_model("openai_privacy_filter", with_labels(R"({"1": "S-a", "0": "O"})"));
  EXPECT_EQ(model.head.task, Task::token_classification);
  EXPECT_EQ(model.head.labels, (std::vector<std::string>{"O", "S-a"}));
  EXPECT_FALSE(model.keeps_cache());
  for (const LayerConfig& layer : model.layers) {
    EXPECT_EQ(layer.window, 4);
    EXPECT_EQ(layer.ahead, 3);
  }
  EXPECT_EQ(model.attention.rope.style, RopeStyle::interleaved);
  EXPECT_EQ(model.moe.gate_up_order, GateUpOrder::gate_first);
  EXPECT_EQ(tensor_dims(model, "score.weight"), (Dims{2, 32}));
  EXPECT_EQ(tensor_dims(model, "score.bias"), (Dims{2}));
}

TEST(FamilyConfig, PrivacyFilterRejectsInvalidConfigs) {
  auto refused = [](const std::string& labels, const std::string& code, const std::string& part) {
    expect_family_refused("openai_privacy_filter", with_labels(labels), code, part);
  };
  refused(R"(["O"])", "hf.config.type", "\"id2label\" must be an object");
  refused(R"({"0": "O", "2": "S-a"})", "hf.config.labels", "including \"2\"");
  refused(R"({"0": "O", "00": "S-a"})", "hf.config.labels", "2 entries");
  refused(R"({"0": "O", "1": 7})", "hf.config.labels", "\"1\": 7");
  refused(R"({"0": "O", "1": "O"})", "hf.config.labels", "has two equal labels");
  refused(R"({})", "model.size", "labels is 0");
}

const char* const kHunyuan = R"("num_experts": 4, "moe_topk": [2, 2, 2, 2],
    "moe_intermediate_size": [12, 12, 12, 12], "intermediate_size": 12,
    "num_shared_expert": [2, 2, 2, 2])";

TEST(FamilyConfig, ReadsHunyuan) {
  ModelConfig model = small_model("hunyuan_v1_moe", kHunyuan);
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::per_head_rotated);
  EXPECT_EQ(model.moe.routing, (Router{.top_k = 2, .renorm = Renorm::sum}));
  EXPECT_EQ(model.moe.expert_ff, 12);
  EXPECT_EQ(model.moe.shared_ff, 24);
  EXPECT_EQ(tensor_dims(model, "model.layers.0.self_attn.query_layernorm.weight"), (Dims{8}));
  std::string differ = kHunyuan;
  differ.replace(differ.find("[2, 2"), 5, "[2, 1");
  expect_family_refused("hunyuan_v1_moe", differ, "hf.config.type",
                        "\"moe_topk\" must be an integer");
  std::string few = kHunyuan;
  few.replace(few.find("[2, 2, 2, 2]"), 12, "[2, 2]");
  expect_family_refused("hunyuan_v1_moe", few, "hf.config.layer_types",
                        "\"moe_topk\" has 2 entries for 4 layers");
}

TEST(FamilyConfig, HunyuanScalesTheBaseByAlpha) {
  auto scaled = [](const char* scaling) {
    return std::string(kHunyuan) + R"(, "rope_theta": 100.0, "rope_scaling": )" + scaling;
  };
  const RopeConfig rope =
      small_model("hunyuan_v1_moe", scaled(R"({"type": "dynamic", "alpha": 8.0, "factor": 1.0})"))
          .attention.rope;
  EXPECT_DOUBLE_EQ(rope.theta, 100 * 16) << "8^(8/6)";
  EXPECT_EQ(rope.scaling, RopeScaling::none);
  EXPECT_EQ(small_model("hunyuan_v1_moe", scaled(R"({"type": "dynamic", "factor": 2.0})"))
                .attention.rope.theta,
            100);
  expect_family_refused("hunyuan_v1_moe", scaled(R"({"type": "dynamic", "alpha": 8.0})"),
                        "hf.config.missing_key", "has no \"factor\"");
}

// Contexts never exceed the model's positions, and within those, the base is unchanged.
TEST(FamilyConfig, TreatsOtherDynamicRotationsAsPlain) {
  auto scaled = [](const char* scaling) {
    return std::string(kGranite) + R"(, "rope_theta": 100.0, "rope_scaling": )" + scaling;
  };
  const RopeConfig plain =
      small_model("granitemoe", scaled(R"({"rope_type": "default"})")).attention.rope;
  for (const char* dynamic :
       {R"({"type": "dynamic", "factor": 2.0})",
        R"({"type": "dynamic", "factor": 2.0, "alpha": 8.0})",
        R"({"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 32})"})
    EXPECT_EQ(small_model("granitemoe", scaled(dynamic)).attention.rope, plain) << dynamic;
  expect_family_refused("granitemoe", scaled(R"({"type": "dynamic", "alpha": 8.0})"),
                        "hf.config.missing_key", "has no \"factor\"");
}

TEST(FamilyConfig, WarnsAboutAnIgnoredAlpha) {
  const auto config = read_config(
      small_text("granitemoe",
                 std::string(kGranite) +
                     R"(, "rope_scaling": {"type": "dynamic", "factor": 2, "alpha": 8})"),
      "config.json");
  ASSERT_TRUE(config.has_value()) << render(config.error());
  ASSERT_EQ(config->warnings.size(), 1u);
  EXPECT_EQ(config->warnings[0].code, "hf.config.rope_unread");
}

TEST(FamilyConfig, KimiReadsConfigsLikeDeepseek) {
  EXPECT_EQ(small_model("kimi_k2", kDeepseek).names("kv_b", 0),
            "model.layers.0.self_attn.kv_b_proj.weight");
}

const char* const kPhi = R"("num_local_experts": 4, "num_experts_per_tok": 2,
    "intermediate_size": 12)";
const char* const kPhiRope = R"("type": "longrope", "short_factor": [1, 1, 1, 1],
    "long_factor": [1, 2, 3, 4.5], "short_mscale": 1.5, "long_mscale": 1.25)";

TEST(FamilyConfig, PhimoeUsesSparsemixerForTwoExperts) {
  ModelConfig model = small_model("phimoe", kPhi);
  const Router wanted{.score = Score::sparsemixer, .top_k = 2, .eps = 0.01};
  EXPECT_EQ(model.moe.routing, wanted);
  EXPECT_EQ(model.norm.kind, NormKind::layer);
  EXPECT_FALSE(model.head.bias);
  EXPECT_EQ(tensor_dims(model, "model.layers.3.input_layernorm.bias"), (Dims{32}));
  EXPECT_EQ(tensor_dims(model, "model.norm.bias"), (Dims{32}));
  EXPECT_EQ(
      small_model("phimoe", std::string(kPhi) + R"(, "router_jitter_noise": 0.25)").moe.routing.eps,
      0.25);
  model = small_model("phimoe",
                      std::string(kPhi) + R"(, "lm_head_bias": true, "attention_bias": true)");
  EXPECT_EQ(tensor_dims(model, "lm_head.bias"), (Dims{50}));
  EXPECT_TRUE(model.attention.qkv_bias && model.attention.o_bias);
}

TEST(FamilyConfig, PhimoeReadsFactors) {
  auto rope = [](const std::string& scaling) {
    return small_model("phimoe", std::string(kPhi) + scaling).attention.rope;
  };
  auto scaling = [](const std::string& more) {
    return fmt::format(R"(, "rope_scaling": {{{}{}}})", kPhiRope, more);
  };
  const RopeConfig inside = rope(scaling(R"(, "original_max_position_embeddings": 16)"));
  EXPECT_EQ(inside.scaling, RopeScaling::longrope);
  EXPECT_EQ(inside.original_max_positions, 16);
  EXPECT_EQ(inside.short_factors, (RopeFactors{{1, 1, 1, 1}, 1.5}));
  EXPECT_EQ(inside.long_factors, (RopeFactors{{1, 2, 3, 4.5}, 1.25}));
  const std::string outside = R"(, "original_max_position_embeddings": 16)";
  EXPECT_EQ(rope(outside + scaling("")), inside);
  EXPECT_EQ(rope(scaling("")).original_max_positions, 64);
  expect_family_refused("phimoe",
                        kPhi + outside + scaling(R"(, "original_max_position_embeddings": 8)"),
                        "hf.config.conflict", "is 16, but inside \"rope_scaling\" it is 8");
  expect_family_refused(
      "phimoe", std::string(kPhi) + R"(, "rope_scaling": {"type": "longrope", "short_factor": 3,
                     "long_factor": [1, 2, 3, "x"], "short_mscale": 1, "long_mscale": 1})",
      "hf.config.type", "\"rope_scaling.short_factor\" must be a list of numbers");
}

const char* const kLlama = R"("num_local_experts": 4, "intermediate_size": 12,
    "intermediate_size_mlp": 24)";

std::vector<int64_t> chunks(const ModelConfig& model) {
  std::vector<int64_t> all;
  for (const LayerConfig& layer : model.layers) all.push_back(layer.chunk);
  return all;
}

TEST(FamilyConfig, Llama4AppliesRoutingToInputs) {
  ModelConfig model = small_model("llama4_text", kLlama);
  EXPECT_EQ(model.moe.routing, (Router{.score = Score::sigmoid_selected, .top_k = 1}));
  EXPECT_EQ(model.moe.weight_on, RoutedWeight::input);
  EXPECT_EQ(model.moe.shared_ff, 12);
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::l2);
  EXPECT_EQ(model.attention.temperature, (QueryTemperature{0.1, 8192}));
  EXPECT_EQ(tensor_dims(model, "model.layers.0.feed_forward.experts.gate_up_proj"),
            (Dims{4, 32, 24}));
  EXPECT_EQ(tensor_dims(model, "model.layers.0.self_attn.q_norm.weight"), (Dims{}));
  model = small_model("llama4_text", std::string(kLlama) + R"(, "use_qk_norm": false,
      "attn_temperature_tuning": false)");
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::none);
  EXPECT_EQ(model.attention.temperature, std::nullopt);
  auto tempered = [](const char* member) {
    return small_model("llama4_text", std::string(kLlama) + member)
        .attention.temperature.has_value();
  };
  EXPECT_TRUE(tempered(R"(, "attn_temperature_tuning": 4)"));
  EXPECT_FALSE(tempered(R"(, "attn_temperature_tuning": 0)"));
}

TEST(FamilyConfig, Llama4ReadsLayers) {
  auto with = [](const char* members) {
    return small_model("llama4_text", std::string(kLlama) + members);
  };
  EXPECT_EQ(moe_layers(with("")), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(moe_layers(with(R"(, "interleave_moe_layer_step": 2)")),
            (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(moe_layers(with(R"(, "interleave_moe_layer_step": 2, "moe_layers": [0, 3])")),
            (std::vector<bool>{true, false, false, true}));
  EXPECT_EQ(rotated_layers(with("")), (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(chunks(with("")), (std::vector<int64_t>{8192, 8192, 8192, 0}));
  ModelConfig model = with(R"(, "no_rope_layers": [0, 1, 1, 0], "attention_chunk_size": 6)");
  EXPECT_EQ(rotated_layers(model), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(chunks(model), (std::vector<int64_t>{0, 6, 6, 0}));
  model = with(R"(, "layer_types": ["chunked_attention", "full_attention", "full_attention",
      "chunked_attention"], "attention_chunk_size": 6)");
  EXPECT_EQ(chunks(model), (std::vector<int64_t>{6, 0, 0, 6}));
}

TEST(FamilyConfig, Llama4RejectsInvalidConfigs) {
  auto refused = [](const char* members, const std::string& code, const std::string& part) {
    expect_family_refused("llama4_text", std::string(kLlama) + members, code, part);
  };
  refused(R"(, "no_rope_layers": [0, 1])", "hf.config.layer_types",
          "\"no_rope_layers\" has 2 entries for 4 layers");
  refused(R"(, "attention_chunk_size": null, "layer_types": ["full_attention",
      "chunked_attention", "full_attention", "full_attention"])",
          "hf.config.window", "layer 1 has chunked attention, but the chunk size is missing");
  refused(R"(, "for_llm_compressor": true)", "hf.config.unsupported_value", "for_llm_compressor");
}

// A descriptor may state a list, or list several keys of which the first is null.
TEST(FamilyConfig, RequiresListEntriesForEachLayer) {
  auto refused = [](const std::string& line, const char* wanted, const char* members) {
    std::string text = read_file(source_dir() + "/models/families/llama4_text.json");
    text.replace(text.find(line), line.size(), wanted);
    const Result<Family> family = load_family(text);
    ASSERT_TRUE(family.has_value()) << render(family.error());
    expect_error(read_config(small_text("llama4_text", std::string(kLlama) + members),
                             "config.json", &*family),
                 "hf.config.layer_types", "has 1 entries for 4 layers");
  };
  const std::string types = R"("layer_types": {"keys": ["layer_types"], "default": null})";
  refused(types, R"("layer_types": {"keys": ["attention_kinds", "layer_types"], "default": null})",
          R"(, "attention_kinds": null, "layer_types": ["full_attention"])");
  refused(R"("rotated_layers": {"keys": ["no_rope_layers"], "default": null})",
          R"("rotated_layers": {"keys": ["no_rope_layers"], "default": [1]})", "");
}

const char* const kZaya = R"("num_experts": 4, "num_experts_per_tok": 1,
    "moe_intermediate_size": 12)";

TEST(FamilyConfig, ReadsZaya) {
  ModelConfig model = small_model("zaya", std::string(kZaya) + R"(, "router_hidden_size": 6)");
  EXPECT_EQ(model.stream.residual, ResidualKind::affine);
  EXPECT_EQ(model.attention.convolved, (ConvolvedConfig{2, 2}));
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::l2_tempered);
  EXPECT_EQ(model.attention.rope.theta, 5e6);
  EXPECT_EQ(model.attention.rope.dims, 4) << "half of each head";
  EXPECT_EQ(model.moe.routing, (Router{.top_k = 1}));
  EXPECT_EQ(model.moe.slots(), 5);
  EXPECT_TRUE(model.head.tied);
  std::vector<bool> taking;
  for (const LayerConfig& layer : model.layers) taking.push_back(layer.takes_router_state);
  EXPECT_EQ(taking, (std::vector<bool>{false, true, true, true}));
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(tensor_dims(model, layer + "self_attn.qkv_proj.conv_qk_grouped.weight"),
            (Dims{48, 8, 2}));
  EXPECT_EQ(tensor_dims(model, layer + "self_attn.qkv_proj.v_proj_delayed.weight"), (Dims{8, 32}));
  EXPECT_EQ(tensor_dims(model, layer + "mlp.gate.router_mlp.out_proj.weight"), (Dims{5, 6}));
  EXPECT_EQ(tensor_dims(model, layer + "mlp.gate.balancing_biases"), (Dims{5}));
  EXPECT_EQ(tensor_dims(model, layer + "mlp.gate.router_states_scale"), (Dims{}));
  EXPECT_EQ(tensor_dims(model, "model.layers.1.mlp.gate.router_states_scale"), (Dims{6}));
  expect_family_refused("zaya", R"("num_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 12)",
                        "hf.config.unsupported_value",
                        "\"num_experts_per_tok\" is 2; for the family zaya it must be 1");
}

TEST(FamilyConfig, ZayaRotatesByLayerType) {
  auto with = [](const std::string& members) { return kZaya + (", " + members); };
  const std::string nested = R"("rope_parameters": {"rope_type": "default",
      "hybrid": {"rope_type": "default", "rope_theta": 3e6, "partial_rotary_factor": 0.25},
      "hybrid_sliding": {"rope_type": "default", "rope_theta": 1e4,
                         "partial_rotary_factor": 0.5}})";
  ModelConfig model = small_model("zaya", with(nested));
  EXPECT_EQ(model.attention.rope.theta, 3e6);
  EXPECT_EQ(model.attention.rope.dims, 2);
  const std::string slide = R"(, "sliding_window": 5, "layer_types": ["hybrid_sliding",
      "hybrid_sliding", "hybrid_sliding", )";
  model = small_model("zaya", with(nested + slide + R"("hybrid_sliding"])"));
  EXPECT_EQ(model.attention.rope.theta, 1e4);
  EXPECT_EQ(model.layers[3].window, 5);
  model = small_model("zaya", with(nested + slide + R"("hybrid"])"));
  ASSERT_EQ(model.more_attention.size(), 1u);
  EXPECT_EQ(model.more_attention[0].rope.theta, 3e6);
  EXPECT_EQ(model.layers[2].attention, 0);
  EXPECT_EQ(model.layers[3].attention, 1);
  expect_family_refused("zaya",
                        with(R"("rope_parameters": {"hybrid_sliding": {"rope_theta": 1e4}})"),
                        "hf.config.missing_key", "no rotary embedding for the layer type");
  expect_family_refused("zaya",
                        with(R"("rope_parameters": {"hybrid": {"rope_theta": 1e4}, "scale": 2})"),
                        "hf.config.unknown_key", "\"rope_parameters.scale\" (2)");
}

}  // namespace
}  // namespace moec
