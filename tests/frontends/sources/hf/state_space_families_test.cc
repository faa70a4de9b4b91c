// Configs of families with state spaces (Mamba-2).
#include <gmock/gmock.h>

#include "frontends/sources/hf/config.h"
#include "frontends/sources/hf/infinities.h"
#include "tests/frontends/sources/hf/layer_lists.h"
#include "tests/frontends/sources/hf/small_config.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

using Mixers = std::vector<MixerKind>;

Mixers mixers_of(const ModelConfig& model) {
  Mixers mixers;
  for (const LayerConfig& layer : model.layers) mixers.push_back(layer.mixer);
  return mixers;
}

// Two groups of two heads of size 16, with a hidden size of 32.
const char* const kGraniteHybrid = R"("num_local_experts": 4, "num_experts_per_tok": 2,
    "intermediate_size": 12, "shared_intermediate_size": 20, "mamba_n_heads": 4,
    "mamba_n_groups": 2, "mamba_d_state": 6)";

std::string granite(const std::string& members) { return kGraniteHybrid + members; }

TEST(StateSpaceConfig, GraniteReadsSizes) {
  const ModelConfig model = small_model("granitemoehybrid", kGraniteHybrid);
  const RecurrentConfig wanted{.taps = 4,
                               .channels = 64 + 2 * 2 * 6,
                               .bias = true,
                               .map_bias = false,
                               .key_heads = 2,
                               .value_heads = 4,
                               .key_dim = 6,
                               .value_dim = 16};
  EXPECT_EQ(model.recurrent, wanted);
  EXPECT_EQ(model.recurrent->state(), (Dims{2, 2, 16, 6}));
  const std::string layer = "model.layers.0.mamba.";
  EXPECT_EQ(tensor_dims(model, layer + "in_proj.weight"), (Dims{64 + 88 + 4, 32}));
  EXPECT_EQ(tensor_dims(model, layer + "conv1d.weight"), (Dims{88, 1, 4}));
  EXPECT_EQ(tensor_dims(model, layer + "conv1d.bias"), (Dims{88}));
  EXPECT_EQ(tensor_dims(model, layer + "in_proj.bias"), (Dims{}));
  EXPECT_EQ(tensor_dims(model, layer + "D"), (Dims{4}));
  EXPECT_EQ(tensor_dims(model, layer + "norm.weight"), (Dims{64}));
}

TEST(StateSpaceConfig, GraniteReadsBiases) {
  const ModelConfig model = small_model(
      "granitemoehybrid", granite(R"(, "mamba_proj_bias": true, "mamba_conv_bias": false)"));
  const std::string layer = "model.layers.0.mamba.";
  EXPECT_EQ(tensor_dims(model, layer + "in_proj.bias"), (Dims{156}));
  EXPECT_EQ(tensor_dims(model, layer + "out_proj.bias"), (Dims{32}));
  EXPECT_EQ(tensor_dims(model, layer + "conv1d.bias"), (Dims{}));
}

TEST(StateSpaceConfig, GraniteRequiresHeadsToFillChannels) {
  auto dims = [](const std::string& members) {
    return small_model("granitemoehybrid", granite(members)).recurrent->value_dim;
  };
  EXPECT_EQ(dims(R"(, "mamba_d_head": "auto")"), 16);
  EXPECT_EQ(dims(R"(, "mamba_expand": 3)"), 24);
  EXPECT_EQ(dims(R"(, "mamba_expand": 3, "mamba_d_head": 24)"), 24);
  expect_family_refused("granitemoehybrid", granite(R"(, "mamba_d_head": 8)"), "hf.config.conflict",
                        "4 heads of 8 (\"mamba_d_head\") have 32 channels, but "
                        "\"mamba_expand\" implies 64");
  expect_family_refused("granitemoehybrid", granite(R"(, "mamba_expand": 2.3)"), "hf.config.range",
                        "mixer_inner");
  std::string in_three = granite("");
  const std::string groups = R"("mamba_n_groups": 2)";
  in_three.replace(in_three.find(groups), groups.size(), R"("mamba_n_groups": 3)");
  expect_family_refused("granitemoehybrid", in_three, "model.mixer",
                        "4 value heads are not divisible by 3 key heads");
}

TEST(StateSpaceConfig, GraniteDefaultsToMambaLayers) {
  const MixerKind ssd = MixerKind::ssd, attention = MixerKind::attention;
  EXPECT_EQ(mixers_of(small_model("granitemoehybrid", kGraniteHybrid)),
            (Mixers{ssd, ssd, ssd, ssd}));
  for (const char* types :
       {R"(, "layer_types": ["mamba", "attention", "mamba", "mamba"])",
        R"(, "layers_block_type": ["linear_attention", "full_attention", "mamba", "mamba"])"})
    EXPECT_EQ(mixers_of(small_model("granitemoehybrid", granite(types))),
              (Mixers{ssd, attention, ssd, ssd}));
  expect_family_refused("granitemoehybrid",
                        granite(R"(, "layer_types": ["mamba", "conv", "mamba", "mamba"])"),
                        "hf.config.unknown_layer_type",
                        "\"conv\"; known: full_attention, sliding_attention, chunked_attention, "
                        "hybrid, hybrid_sliding, linear_attention, mamba, attention");
  expect_family_refused("qwen3_next",
                        R"("num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
                        "layer_types": ["mamba", "attention", "mamba", "mamba"])",
                        "hf.config.unknown_layer_type", "\"mamba\"");
}

TEST(StateSpaceConfig, GraniteRotatesOnlyIfConfigured) {
  auto style = [](const std::string& members) {
    return small_model("granitemoehybrid", granite(members)).attention.rope.style;
  };
  EXPECT_EQ(style(""), RopeStyle::none);
  EXPECT_EQ(style(R"(, "position_embedding_type": null)"), RopeStyle::none);
  EXPECT_EQ(style(R"(, "position_embedding_type": "nope", "rope_theta": 10000)"), RopeStyle::none);
  EXPECT_EQ(style(R"(, "position_embedding_type": "rope")"), RopeStyle::half);
  expect_family_refused("granitemoehybrid", granite(R"(, "position_embedding_type": "alibi")"),
                        "hf.config.unsupported_value",
                        "\"position_embedding_type\" is \"alibi\", but must be rope, nope or null");
}

TEST(StateSpaceConfig, GraniteMakesSharedExpertsDenseMlps) {
  const ModelConfig model = small_model("granitemoehybrid", R"("num_local_experts": 0,
      "shared_intermediate_size": 20, "mamba_n_heads": 4)");
  EXPECT_EQ(moe_layers(model), (std::vector<bool>{false, false, false, false}));
  EXPECT_EQ(model.mlp.ff, 20);
  EXPECT_EQ(tensor_dims(model, "model.layers.3.shared_mlp.input_linear.weight"), (Dims{40, 32}));
  EXPECT_EQ(tensor_dims(model, "model.layers.3.block_sparse_moe.router.layer.weight"), (Dims{}));
}

TEST(StateSpaceConfig, RejectsLimitedTimeSteps) {
  for (const char* limit : {"[0.0, Infinity]", R"([0.0, {"__float__": "Infinity"}])", "null"})
    small_model("granitemoehybrid", granite(std::string(R"(, "time_step_limit": )") + limit));
  expect_family_refused("granitemoehybrid", granite(R"(, "time_step_limit": [0.001, Infinity])"),
                        "hf.config.unsupported_value", "\"time_step_limit\" is [0.001, \"inf\"]");
  expect_family_refused("granitemoehybrid", granite(R"(, "time_step_limit": [0.0, 0.1])"),
                        "hf.config.unsupported_value", "\"time_step_limit\" is [0, 0.1]");
}

TEST(Infinities, BecomeStringsAndKeepPositions) {
  EXPECT_EQ(with_infinities(R"({"a": [0, Infinity], "Infinity": "an Infinity \" Infinity"})"),
            R"({"a": [0, "inf"   ], "Infinity": "an Infinity \" Infinity"})");
  EXPECT_EQ(with_infinities("-Infinity"), "-\"inf\"   ") << "still not JSON";
  EXPECT_EQ(with_infinities("Infinit"), "Infinit");
}

// ---- nemotron_h --------------------------------------------------------------------------------

std::string nemotron(const std::string& members) {
  return R"({"model_type": "nemotron_h", "hidden_size": 32, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 50, "max_position_embeddings": 64,
      "intermediate_size": 24, "mamba_num_heads": 4, "mamba_head_dim": 6, "ssm_state_size": 10,
      "n_groups": 2, "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
      "moe_shared_expert_intermediate_size": 20)" +
         members + "}";
}

ModelConfig nemotron_model(const std::string& members) {
  auto config = read_config(nemotron(members), "config.json");
  EXPECT_TRUE(config.has_value()) << render(config.error());
  return config ? std::move(config->model) : ModelConfig{};
}

void expect_nemotron_refused(const std::string& members, const std::string& code,
                             const std::string& part) {
  expect_error(read_config(nemotron(members), "config.json"), code, part);
}

std::string kinds_of(const ModelConfig& model) {
  std::string kinds;
  for (const LayerConfig& layer : model.layers)
    kinds += layer.parts == LayerParts::both    ? '?'
             : layer.parts == LayerParts::mixer ? (layer.mixer == MixerKind::ssd ? 'M' : '*')
                                                : (layer.moe ? 'E' : '-');
  return kinds;
}

TEST(StateSpaceConfig, NemotronReadsOnePartPerLayer) {
  EXPECT_EQ(kinds_of(nemotron_model("")), "ME*-") << "the default of the class";
  EXPECT_EQ(kinds_of(nemotron_model(R"(, "hybrid_override_pattern": "EM*M-")")), "EM*M-");
  EXPECT_EQ(kinds_of(nemotron_model(R"(, "layers_block_type": ["mamba", "moe", "attention"])")),
            "ME*");
  EXPECT_EQ(kinds_of(nemotron_model(R"(, "hybrid_override_pattern": "ME", "num_hidden_layers": 2,
      "layers_block_type": ["linear_attention", "moe"])")),
            "ME");
  expect_nemotron_refused(R"(, "hybrid_override_pattern": "MX")", "hf.config.unknown_layer_type",
                          "\"hybrid_override_pattern\" has the letter 'X'; known: M (mamba)");
  expect_nemotron_refused(R"(, "hybrid_override_pattern": "")", "model.size", "layers is 0");
  expect_nemotron_refused(R"(, "layers_block_type": ["conv"])", "hf.config.unknown_layer_type",
                          "unknown kind of layer \"conv\"; known: linear_attention (also mamba)");
  expect_nemotron_refused(R"(, "hybrid_override_pattern": "MM", "layers_block_type": ["moe"])",
                          "hf.config.conflict", "specify different layer kinds");
  expect_nemotron_refused(R"(, "hybrid_override_pattern": "MM", "num_hidden_layers": 3)",
                          "hf.config.layer_types",
                          "\"num_hidden_layers\" is 3, but there are 2 layer kinds");
}

TEST(StateSpaceConfig, NemotronReadsUngatedExperts) {
  const ModelConfig model = nemotron_model(R"(, "mlp_bias": true)");
  EXPECT_EQ(model.mlp.gating, Gating{Activation::relu2});
  EXPECT_EQ(tensor_dims(model, "backbone.layers.1.mixer.experts.5.up_proj.weight"), (Dims{12, 32}));
  EXPECT_EQ(tensor_dims(model, "backbone.layers.1.mixer.experts.5.down_proj.weight"),
            (Dims{32, 12}));
  EXPECT_EQ(tensor_dims(model, "backbone.layers.1.mixer.shared_experts.up_proj.bias"), (Dims{20}));
  EXPECT_EQ(tensor_dims(model, "backbone.layers.3.mixer.up_proj.weight"), (Dims{24, 32}));
  EXPECT_EQ(tensor_dims(model, "backbone.layers.3.mixer.down_proj.bias"), (Dims{32}));
  expect_nemotron_refused(R"(, "mlp_hidden_act": "silu")", "hf.config.unsupported_value",
                          "\"mlp_hidden_act\" is \"silu\", which is not supported in MLPs without "
                          "a gate");
  const Result<HfConfig> gated = read_config(
      R"({"model_type": "mixtral", "hidden_size": 32, "hidden_act": "relu2"})", "config.json");
  expect_error(gated, "hf.config.unsupported_value",
               "\"hidden_act\" is \"relu2\", which is not supported in MLPs with a gate");
}

TEST(StateSpaceConfig, NemotronReadsRouting) {
  const ModelConfig model = nemotron_model(R"(, "n_group": 3, "topk_group": 2,
      "routed_scaling_factor": 2.5)");
  const Router wanted{.score = Score::sigmoid,
                      .top_k = 2,
                      .renorm = Renorm::sum_plus_eps,
                      .eps = 1e-20,
                      .scale = 2.5,
                      .groups = 3,
                      .groups_kept = 2,
                      .group_score = GroupScore::top2_sum};
  EXPECT_EQ(model.moe.routing, wanted);
  EXPECT_TRUE(model.moe.choice_bias);
  EXPECT_EQ(model.attention.rope.style, RopeStyle::none);
  EXPECT_EQ(nemotron_model(R"(, "norm_topk_prob": false)").moe.routing.renorm, Renorm::none);
}

// The residual stream has 32 channels.
TEST(StateSpaceConfig, NemotronReadsLatentExperts) {
  const ModelConfig model = nemotron_model(R"(, "moe_latent_size": 10, "mlp_bias": true)");
  EXPECT_EQ(model.moe.latent, 10);
  EXPECT_EQ(model.expert_width(), 10);
  const std::string mixer = "backbone.layers.1.mixer.";
  EXPECT_EQ(tensor_dims(model, mixer + "experts.5.up_proj.weight"), (Dims{12, 10}));
  EXPECT_EQ(tensor_dims(model, mixer + "experts.5.down_proj.weight"), (Dims{10, 12}));
  EXPECT_EQ(tensor_dims(model, mixer + "fc1_latent_proj.weight"), (Dims{10, 32}));
  EXPECT_EQ(tensor_dims(model, mixer + "fc1_latent_proj.bias"), (Dims{10}));
  EXPECT_EQ(tensor_dims(model, mixer + "fc2_latent_proj.weight"), (Dims{32, 10}));
  EXPECT_EQ(tensor_dims(model, mixer + "fc2_latent_proj.bias"), (Dims{32}));
  EXPECT_EQ(tensor_dims(model, mixer + "gate.weight"), (Dims{6, 32}));
  EXPECT_EQ(tensor_dims(model, mixer + "shared_experts.up_proj.weight"), (Dims{20, 32}));
  const ModelConfig plain = nemotron_model(R"(, "moe_latent_size": null)");
  EXPECT_EQ(plain.moe, nemotron_model("").moe);
  EXPECT_EQ(plain.expert_width(), 32);
}

TEST(StateSpaceConfig, NemotronRejectsUnsupportedKeys) {
  auto refused = [](const std::string& key, const std::string& value) {
    expect_nemotron_refused(", \"" + key + "\": " + value, "hf.config.unsupported_value",
                            "\"" + key + "\" is " + value);
  };
  expect_nemotron_refused(R"(, "moe_latent_size": 0)", "hf.config.range",
                          "\"moe_latent_size\" is 0");
  refused("tie_word_embeddings", "true");
  refused("mamba_proj_bias", "true");
  refused("attention_bias", "true");
  refused("mamba_hidden_act", "\"gelu\"");
  refused("time_step_limit", "[0, 0.5]");
}

}  // namespace
}  // namespace moec
