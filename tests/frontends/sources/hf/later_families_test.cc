// Configs of families that transformers added until 5.24.
#include <gmock/gmock.h>

#include <cmath>

#include "frontends/sources/hf/tensor_check.h"
#include "models/tensors/rope.h"
#include "tests/frontends/sources/hf/layer_lists.h"
#include "tests/frontends/sources/hf/small_config.h"

namespace moec {
namespace {

const std::string kExperts = R"("num_experts": 6, "num_experts_per_tok": 2,
    "moe_intermediate_size": 12)";
const std::string kDense = kExperts + R"(, "intermediate_size": 24)";
const std::string kLatent = kDense + R"(, "kv_lora_rank": 9, "qk_nope_head_dim": 5,
    "qk_rope_head_dim": 4, "v_head_dim": 7)";
const std::string kTypes = R"(, "layer_types": ["sliding_attention", "full_attention",
    "sliding_attention", "full_attention"])";

TEST(FlexOlmoConfig, NormsOnlyOutputs) {
  const ModelConfig model =
      small_model("flex_olmo", R"("num_experts": 6, "num_experts_per_tok": 2)");
  EXPECT_FALSE(model.stream.pre_norms);
  EXPECT_EQ(model.stream.post_norms, PostNorms::all);
  EXPECT_EQ(model.moe.routing.renorm, Renorm::none);
  EXPECT_EQ(model.attention.rope.theta, 500000);
}

TEST(AfmoeConfig, ScalesEmbeddingsIfEnabled) {
  EXPECT_EQ(small_model("afmoe", kDense).stream.embedding_scale, 1);
  EXPECT_FLOAT_EQ(small_model("afmoe", kDense + R"(, "mup_enabled": true)").stream.embedding_scale,
                  std::sqrt(32.0));
}

TEST(AfmoeConfig, GatesChannelsAndWindows) {
  const ModelConfig model = small_model("afmoe", kDense + R"(, "global_attn_every_n_layers": 2)");
  EXPECT_EQ(model.attention.scaling.gate, (OutputGate{GateFn::sigmoid, false}));
  EXPECT_EQ(layer_windows(model), (std::vector<int64_t>{1024, 0, 1024, 0}));
  EXPECT_EQ(rotated_layers(model), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(moe_layers(model), (std::vector<bool>{false, true, true, true}));
}

TEST(AfmoeConfig, RefusesOtherRouters) {
  expect_family_refused("afmoe", kDense + R"(, "route_norm": false)", "hf.config.unsupported_value",
                        "route_norm");
  expect_family_refused("afmoe", kDense + R"(, "score_func": "softmax")",
                        "hf.config.unsupported_value", "score_func");
}

TEST(FlintConfig, HasFullLayersAtBothEnds) {
  std::string text = small_text("flint", kDense + R"(, "sliding_window": 7)");
  text.replace(text.find("\"num_hidden_layers\": 4"), 22, "\"num_hidden_layers\": 9");
  const auto config = read_config(text, "config.json");
  ASSERT_TRUE(config) << render(config.error());
  // Layers 0, 1, every fourth one from 1 on, and the last one.
  EXPECT_EQ(layer_windows(config->model), (std::vector<int64_t>{0, 0, 7, 7, 7, 0, 7, 7, 0}));
  EXPECT_FALSE(config->model.layers[1].moe);
  EXPECT_TRUE(config->model.layers[2].moe);
  EXPECT_TRUE(config->model.attention.sinks);
}

TEST(FlintConfig, ListedTypesReplaceTheRule) {
  EXPECT_EQ(layer_windows(small_model("flint", kDense + kTypes)),
            (std::vector<int64_t>{513, 0, 513, 0}));
}

TEST(Kolibri1Config, ChoosesByBiasedLogits) {
  const ModelConfig model = small_model("kolibri1", kExperts);
  EXPECT_EQ(model.moe.routing.score, Score::sigmoid_selected);
  EXPECT_EQ(model.moe.routing.renorm, Renorm::none);
  EXPECT_TRUE(model.moe.choice_bias);
  EXPECT_EQ(model.stream.post_norms, PostNorms::all);
  EXPECT_EQ(layer_windows(model), (std::vector<int64_t>{513, 513, 513, 513}));
}

TEST(SarvamMoeConfig, ReadsTheKeysOfTheRelease) {
  const ModelConfig model =
      small_model("sarvam_moe", kDense + R"(, "num_shared_experts": 2, "use_qkv_bias": true)");
  EXPECT_EQ(model.moe.experts, 6);
  EXPECT_EQ(model.moe.shared_ff, 24);
  EXPECT_TRUE(model.attention.qkv_bias);
  EXPECT_EQ(model.attention.rope.dims, 8);
  EXPECT_EQ(model.attention.rope.theta, 8000000);
}

const std::string kAxk1 = kLatent + R"(, "q_lora_rank": 6, "n_group": 1, "topk_group": 1)";

TEST(Axk1Config, NormsExpertsOnly) {
  const ModelConfig model = small_model("axk1", kAxk1);
  EXPECT_EQ(model.stream.post_norms, PostNorms::moe);
  EXPECT_EQ(moe_layers(model), (std::vector<bool>{false, true, true, true}));
  // The release stores the norm in dense layers, too.
  EXPECT_THAT(model.names.ignored, testing::Contains("model.layers.0.post_mlp_layernorm.weight"));
  EXPECT_THAT(model.names.ignored,
              testing::Not(testing::Contains("model.layers.1.post_mlp_layernorm.weight")));
  expect_family_refused("axk1", kLatent + R"(, "q_lora_rank": null)", "hf.config.type",
                        "q_lora_rank");
}

// The release stores no correction bias, which is zero in its class.
TEST(Axk1Config, OmitsAbsentChoiceBiases) {
  const auto text = small_text("axk1", kAxk1);
  HfConfig config = read_config(text, "config.json").value();
  FolderWeights weights;
  weights.table = declared_weights(config.model, DType::bf16);
  resolve_names(*config.family, weights, config.model);
  EXPECT_TRUE(config.model.moe.choice_bias);
  std::erase_if(weights.table.tensors,
                [](const auto& tensor) { return tensor.first.ends_with("correction_bias"); });
  resolve_names(*config.family, weights, config.model);
  EXPECT_FALSE(config.model.moe.choice_bias);
}

TEST(GraniteSwaConfig, RotatesByBasesPerLayer) {
  const std::string granite = R"("num_local_experts": 6, "num_experts_per_tok": 2,
      "intermediate_size": 12)";
  const ModelConfig model =
      small_model("granitemoe_swa", granite + R"(, "layer_rope_theta": [700.0, 0, 300, 700])");
  EXPECT_EQ(rotated_layers(model), (std::vector<bool>{true, false, true, true}));
  ASSERT_EQ(model.rotations().size(), 2u);
  EXPECT_EQ(model.rotations()[0].theta, 700);
  EXPECT_EQ(model.rotations()[1].theta, 300);
  EXPECT_EQ(layer_windows(model), (std::vector<int64_t>{0, 128, 128, 128}));
  expect_family_refused("granitemoe_swa", granite + R"(, "layer_rope_theta": [700.0])",
                        "hf.config.layer_types", "layer_rope_theta");
  expect_family_refused("granitemoe_swa", granite + R"(, "layer_rope_theta": [1, 1, -1, 1])",
                        "hf.config.unsupported_value", "layer_rope_theta");
}

TEST(Mistral4Config, ScalesQueriesInAllLayers) {
  const ModelConfig model = small_model("mistral4", kLatent);
  EXPECT_EQ(model.attention.rope.scaling, RopeScaling::yarn);
  EXPECT_EQ(model.attention.rope.factor, 128);
  EXPECT_EQ(model.attention.rope.dims, 4);
  ASSERT_TRUE(model.attention.temperature);
  EXPECT_TRUE(model.attention.temperature->everywhere);
  EXPECT_EQ(query_scale(*model.attention.temperature, 8191), 1);
  EXPECT_FLOAT_EQ(query_scale(*model.attention.temperature, 8192), 1 + 0.1 * std::log(2));
}

TEST(Mistral4Config, ChecksTheRotation) {
  const auto rotation = [](const std::string& members) {
    return kLatent + R"(, "rope_parameters": {"rope_type": "yarn", "factor": 4.0,
        "rope_theta": 100.0, "original_max_position_embeddings": 16)" +
           members + "}";
  };
  const ModelConfig model = small_model(
      "mistral4", rotation(R"(, "llama_4_scaling_beta": 0.2, "partial_rotary_factor": 0.45)"));
  EXPECT_EQ(model.attention.temperature->step, 16);
  expect_family_refused("mistral4", rotation(""), "hf.config.missing_key", "llama_4_scaling_beta");
  expect_family_refused("mistral4",
                        rotation(R"(, "llama_4_scaling_beta": 0.2, "partial_rotary_factor": 0.9)"),
                        "hf.config.unsupported_value", "4 of 9 dims rotate");
}

TEST(LagunaConfig, ReadsHeadsPerLayer) {
  const ModelConfig model =
      small_model("laguna", kDense + R"(, "num_attention_heads_per_layer": [4, 6, 4, 8])");
  ASSERT_EQ(model.more_attention.size(), 2u);
  EXPECT_EQ(model.attention_of(model.layers[0]).heads, 4);
  EXPECT_EQ(model.attention_of(model.layers[1]).heads, 6);
  EXPECT_EQ(model.attention_of(model.layers[3]).heads, 8);
  expect_family_refused("laguna", kDense + R"(, "num_attention_heads_per_layer": [4])",
                        "hf.config.layer_types", "num_attention_heads_per_layer");
}

TEST(LagunaConfig, ReadsTheGranularityOfGates) {
  const auto gate = [](const std::string& value) {
    return small_model("laguna", kDense + R"(, "gating": )" + value).attention.scaling.gate;
  };
  EXPECT_EQ(small_model("laguna", kDense).attention.scaling.gate,
            (OutputGate{GateFn::softplus, true}));
  EXPECT_EQ(gate("\"per-head\""), (OutputGate{GateFn::softplus, true}));
  EXPECT_EQ(gate("\"per-element\""), (OutputGate{GateFn::softplus, false}));
  EXPECT_EQ(gate("false"), (OutputGate{GateFn::softplus, false}));
  expect_family_refused("laguna", kDense + R"(, "gating": "per-layer")",
                        "hf.config.unsupported_value", "per-element");
}

TEST(LagunaConfig, CapsTheLogitsOfRouters) {
  EXPECT_EQ(small_model("laguna", kDense).moe.router_map.softcap, 0);
  EXPECT_EQ(small_model("laguna", kDense + R"(, "moe_router_logit_softcapping": 2.5)")
                .moe.router_map.softcap,
            2.5);
  expect_family_refused("laguna", kDense + R"(, "moe_router_logit_softcapping": -1)",
                        "model.number", "cap of the router");
}

TEST(BailingHybridConfig, GatesHeadsOfLatentAttention) {
  const ModelConfig model = small_model(
      "bailing_hybrid", kLatent + R"(, "head_dim": 6, "layer_group_size": 2, "n_group": 1,
      "topk_group": 1, "num_nextn_predict_layers": 0)");
  EXPECT_EQ(model.attention.scaling.gate, (OutputGate{GateFn::sigmoid, true}));
  ASSERT_TRUE(model.recurrent);
  EXPECT_EQ(model.recurrent->key_dim, 6);
  EXPECT_EQ(model.recurrent->least_log_decay, -5);
  EXPECT_EQ(model.layers[0].mixer, MixerKind::kimi_delta);
  EXPECT_EQ(model.layers[1].mixer, MixerKind::attention);
  EXPECT_EQ(moe_layers(model), (std::vector<bool>{false, false, true, true}));
}

TEST(LaraMiniConfig, RepeatsItsPatternOfLayers) {
  const ModelConfig model = small_model("lara_mini", kExperts);
  EXPECT_EQ(model.layers[0].mixer, MixerKind::gated_delta);
  EXPECT_EQ(layer_windows(model), (std::vector<int64_t>{0, 512, 0, 0}));
  EXPECT_EQ(model.layers[2].mixer, MixerKind::gated_delta);
  EXPECT_FALSE(model.layers[3].rotated);
  EXPECT_TRUE(model.layers[1].rotated);
}

TEST(MimoConfig, DoublesKeyHeadsInWindows) {
  const ModelConfig model = small_model("mimo_v2_flash", kDense + kTypes);
  const AttentionConfig& sliding = model.attention_of(model.layers[0]);
  const AttentionConfig& full = model.attention_of(model.layers[1]);
  EXPECT_EQ(sliding.kv_heads, 4);
  EXPECT_EQ(full.kv_heads, 2);
  EXPECT_TRUE(sliding.sinks);
  EXPECT_FALSE(full.sinks);
  EXPECT_EQ(sliding.rope.theta, 10000);
  EXPECT_EQ(full.rope.theta, 5000000);
  EXPECT_EQ(full.value_dim, 128);
  EXPECT_EQ(full.scaling.value_scale, 0.707);
}

TEST(MimoConfig, ReadsTheKeysOfTheRelease) {
  const ModelConfig model = small_model(
      "mimo_v2_flash", kDense + kTypes + R"(, "sliding_window": 128, "sliding_window_size": 5,
      "routed_scaling_factor": null, "v_head_dim": 6, "attention_value_scale": null)");
  EXPECT_EQ(layer_windows(model), (std::vector<int64_t>{6, 0, 6, 0}));
  EXPECT_EQ(model.moe.routing.scale, 1);
  EXPECT_EQ(model.attention.value_dim, 6);
  EXPECT_EQ(model.attention.scaling.value_scale, 1);
  expect_family_refused("mimo_v2_flash", kDense + R"(, "add_full_attention_sink_bias": true)",
                        "hf.config.unsupported_value", "add_full_attention_sink_bias");
}

// rms_norm_eps is null, because small_text() sets it for other families.
const std::string kCommand = R"("num_experts": 6, "intermediate_size": 12)";

ModelConfig command_model(const std::string& members) {
  std::string text = small_text("cohere2_moe", kCommand + members);
  text.replace(text.find("1e-06"), 5, "null");
  auto config = read_config(text, "config.json");
  EXPECT_TRUE(config.has_value()) << render(config.error());
  return config ? std::move(config->model) : ModelConfig{};
}

TEST(CommandConfig, RunsPartsInParallel) {
  const ModelConfig model = command_model("");
  EXPECT_TRUE(model.stream.parallel);
  EXPECT_EQ(model.norm, (NormConfig{NormKind::layer_unbiased, 1e-5}));
  EXPECT_EQ(model.head.divisor, 16);
  EXPECT_EQ(model.moe.shared_ff, 0);
  EXPECT_FALSE(model.moe.shared_averaged);
  EXPECT_EQ(layer_windows(model), (std::vector<int64_t>{4096, 4096, 4096, 0}));
  EXPECT_EQ(rotated_layers(model), (std::vector<bool>{true, true, true, false}));
}

TEST(CommandConfig, ReplacesNormsByRms) {
  EXPECT_EQ(small_model("cohere2_moe", kCommand).norm, (NormConfig{NormKind::rms, 1e-6}));
}

TEST(CommandConfig, CountsWindowsFromDenseLayersOn) {
  const std::string dense = R"(, "first_k_dense_replace": 1, "sliding_window_pattern": 2)";
  const ModelConfig model = command_model(dense);
  EXPECT_EQ(layer_windows(model), (std::vector<int64_t>{0, 4096, 0, 4096}));
  // A dense layer that sees all keys rotates.
  EXPECT_EQ(rotated_layers(model), (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(moe_layers(model), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(model.mlp.ff, 12);
  const ModelConfig windows = command_model(dense + R"(, "prefix_dense_sliding_window_pattern": 3,
      "prefix_dense_intermediate_size": 20)");
  EXPECT_EQ(layer_windows(windows), (std::vector<int64_t>{4096, 4096, 0, 4096}));
  EXPECT_EQ(windows.mlp.ff, 20);
}

TEST(CommandConfig, ReadsTheRouterAndSharedExperts) {
  const ModelConfig soft = command_model(R"(, "num_shared_experts": 2)");
  EXPECT_EQ(soft.moe.routing.score, Score::softmax_selected);
  EXPECT_EQ(soft.moe.routing.renorm, Renorm::none);
  EXPECT_TRUE(soft.moe.shared_averaged);
  EXPECT_EQ(soft.moe.shared_ff, 24);
  const ModelConfig sigmoid = command_model(
      R"(, "num_shared_experts": 1, "expert_selection_fn": "sigmoid",
      "shared_expert_combination_strategy": "sum")");
  EXPECT_EQ(sigmoid.moe.routing.score, Score::sigmoid_selected);
  EXPECT_EQ(sigmoid.moe.routing.renorm, Renorm::sum);
  EXPECT_FALSE(sigmoid.moe.shared_averaged);
}

TEST(CommandConfig, RefusesOtherValues) {
  const auto refused = [](const std::string& member, const std::string& code,
                          const std::string& part) {
    expect_family_refused("cohere2_moe", kCommand + ", " + member, code, part);
  };
  refused(R"("expert_selection_fn": "softmax_selected")", "hf.config.unsupported_value",
          "must be sigmoid or softmax");
  refused(R"("shared_expert_combination_strategy": "max")", "hf.config.unsupported_value",
          "known: sum, average");
  refused(R"("logit_scale": 0)", "hf.config.unsupported_value", "logit_scale");
  refused(R"("sliding_window": null)", "hf.config.type", "sliding_window");
}

}  // namespace
}  // namespace moec
