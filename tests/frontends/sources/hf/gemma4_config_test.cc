// Configs of Gemma 4 with experts: every key that changes the computation, and rejected values.
#include <cmath>

#include "tests/frontends/sources/hf/layer_lists.h"
#include "tests/frontends/sources/hf/small_config.h"

namespace moec {
namespace {

const char* const kGemma = R"("hidden_size_per_layer_input": 0, "enable_moe_block": true,
    "num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 12, "intermediate_size": 24)";

// The keys of every small config except hidden_act, which the class does not have.
std::string gemma_text(const std::string& members) {
  std::string text = small_text("gemma4_text", kGemma + members);
  const std::string act = R"("hidden_act": "silu", )";
  return text.erase(text.find(act), act.size());
}

HfConfig gemma(const std::string& members) {
  auto config = read_config(gemma_text(members), "config.json");
  EXPECT_TRUE(config.has_value()) << render(config.error());
  return config ? std::move(*config) : HfConfig{};
}

ModelConfig gemma_model(const std::string& members) { return gemma(members).model; }

void expect_gemma_refused(const std::string& members, const std::string& code,
                          const std::string& part) {
  expect_error(read_config(gemma_text(members), "config.json"), code, part);
}

TEST(Gemma4Config, ReadsTheMoeBlock) {
  const ModelConfig model = gemma_model("");
  EXPECT_DOUBLE_EQ(model.stream.embedding_scale, std::sqrt(32.0));
  EXPECT_EQ(model.stream.post_norms, PostNorms::all);
  EXPECT_TRUE(model.stream.layer_scale);
  EXPECT_EQ(model.mlp.gating, Gating{Activation::gelu_tanh});
  EXPECT_EQ(model.moe.shared_ff, 24) << "the dense MLP";
  EXPECT_TRUE(model.moe.parts_normed);
  EXPECT_TRUE(model.moe.router_map.normed);
  EXPECT_EQ(model.moe.routing, (Router{.top_k = 2, .renorm = Renorm::sum}));
  EXPECT_TRUE(model.head.tied);
  EXPECT_EQ(model.head.softcap, 0);
  EXPECT_EQ(gemma_model(R"(, "final_logit_softcapping": 30.0)").head.softcap, 30);
  EXPECT_EQ(tensor_dims(model, "model.layers.1.router.per_expert_scale"), (Dims{6}));
  EXPECT_EQ(tensor_dims(model, "model.layers.1.layer_scalar"), (Dims{1}));
}

TEST(Gemma4Config, ReadsOtherHeadsInFullLayers) {
  const ModelConfig model = gemma_model(R"(, "global_head_dim": 10)");
  EXPECT_EQ(layer_windows(model), (std::vector<int64_t>{512, 512, 512, 0}))
      << "the last layer is always full";
  ASSERT_EQ(model.more_attention.size(), 1u);
  const AttentionConfig &sliding = model.attention, &full = model.more_attention[0];
  EXPECT_EQ(sliding.head_dim, 8);
  EXPECT_EQ(full.head_dim, 10);
  EXPECT_EQ(full.value_dim, 10);
  EXPECT_EQ(full.kv_heads, 2);
  EXPECT_EQ(full.scale, 1);
  EXPECT_EQ(full.projections, Projections::apart);
  EXPECT_EQ(model.layers[2].attention, 0);
  EXPECT_EQ(model.layers[3].attention, 1);
  EXPECT_EQ(gemma_model("").more_attention[0].head_dim, 512) << "the class's";
}

TEST(Gemma4Config, UsesSharedKeysAsValues) {
  const char* const heads = R"(, "global_head_dim": 10, "num_global_key_value_heads": 1)";
  const std::string shared = heads + std::string(R"(, "attention_k_eq_v": true)");
  const ModelConfig model = gemma_model(shared);
  EXPECT_EQ(model.attention.projections, Projections::apart);
  EXPECT_EQ(model.more_attention[0].projections, Projections::keys_are_values);
  EXPECT_EQ(model.more_attention[0].kv_heads, 1);
  EXPECT_EQ(tensor_dims(model, "model.layers.3.self_attn.v_proj.weight"), Dims{});
  EXPECT_EQ(tensor_dims(model, "model.layers.2.self_attn.v_proj.weight"), (Dims{16, 32}));
  EXPECT_EQ(gemma_model(heads).more_attention[0].kv_heads, 2) << "only if keys are used as values";
}

TEST(Gemma4Config, ReadsSizesByLayer) {
  const ModelConfig model =
      gemma_model(R"(, "per_layer_config": {"3": {"head_dim": 6, "num_key_value_heads": 4}})");
  EXPECT_EQ(model.more_attention.at(0).head_dim, 6);
  EXPECT_EQ(model.more_attention.at(0).kv_heads, 4);
  EXPECT_EQ(gemma_model(R"(, "per_layer_config": {})").more_attention.at(0).head_dim, 8)
      << "replaces global_head_dim";
  for (const auto& [value, part] : std::vector<std::pair<std::string, std::string>>{
           {R"({"4": {"head_dim": 6}})",
            "\"4\" in \"per_layer_config\" is not a layer of the model"},
           {R"({"x": {"head_dim": 6}})", "is not a layer of the model"},
           {R"({"3": 6})", "\"3\" in \"per_layer_config\" must be an object"},
           {R"({"3": {"sliding_window": 6}})", "\"sliding_window\" in \"per_layer_config\""},
           {R"({"3": {"head_dim": 0}})", "\"head_dim\" in \"per_layer_config\""}})
    expect_gemma_refused(", \"per_layer_config\": " + value, "hf.config.attention_by_layer", part);
}

TEST(Gemma4Config, ReadsRotationsByType) {
  const ModelConfig model = gemma_model(R"(, "global_head_dim": 16, "rope_parameters": {
      "sliding_attention": {"rope_type": "default", "rope_theta": 3e4},
      "full_attention": {"rope_type": "proportional", "rope_theta": 2e5,
                         "partial_rotary_factor": 0.5, "factor": 4.0}})");
  const std::vector<RopeConfig> ropes = model.rotations();
  ASSERT_EQ(ropes.size(), 2u);
  EXPECT_EQ(ropes[0].theta, 3e4);
  EXPECT_EQ(ropes[0].dims, 8);
  EXPECT_EQ(ropes[1].scaling, RopeScaling::proportional);
  EXPECT_EQ(ropes[1].dims, 16);
  EXPECT_EQ(ropes[1].share, 0.5);
  EXPECT_EQ(ropes[1].factor, 4);
  EXPECT_EQ(model.rotation_of(model.layers[0]), 0);
  EXPECT_EQ(model.rotation_of(model.layers[3]), 1);
  const RopeConfig usual = gemma_model("").rotations().at(1);
  EXPECT_EQ(usual.theta, 1e6);
  EXPECT_EQ(usual.share, 0.25);
}

// The class ignores the partial share of a plain rotation and rotates the whole head.
TEST(Gemma4Config, IgnoresSharesOfPlainRotations) {
  const HfConfig config = gemma(R"(, "rope_parameters": {
      "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
      "full_attention": {"rope_type": "default", "rope_theta": 1e6}})");
  EXPECT_EQ(config.model.attention.rope.dims, 8);
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_EQ(config.warnings[0].code, "hf.config.rope_unread");
}

TEST(Gemma4Config, MakesTheLastLayerFull) {
  const HfConfig config = gemma(R"(, "sliding_window": 5, "layer_types": ["full_attention",
      "sliding_attention", "full_attention", "sliding_attention"])");
  EXPECT_EQ(layer_windows(config.model), (std::vector<int64_t>{0, 5, 0, 0}));
  EXPECT_EQ(config.model.layers[3].attention, config.model.layers[0].attention);
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_EQ(config.warnings[0].code, "hf.config.last_layer");
}

TEST(Gemma4Config, ReadsBiasesOfAttention) {
  const ModelConfig model = gemma_model(R"(, "attention_bias": true)");
  EXPECT_TRUE(model.attention.qkv_bias);
  EXPECT_TRUE(model.more_attention[0].o_bias);
}

TEST(Gemma4Config, RejectsUnsupportedValues) {
  const std::string code = "hf.config.unsupported_value";
  expect_gemma_refused(R"(, "num_kv_shared_layers": 2)", code,
                       "layers that read the keys of another layer are not supported");
  expect_gemma_refused(R"(, "use_double_wide_mlp": true)", code, "\"use_double_wide_mlp\" is true");
  expect_gemma_refused(R"(, "use_bidirectional_attention": "all")", code,
                       "attention to later text tokens is not supported");
  gemma_model(R"(, "use_bidirectional_attention": "vision")");
  expect_gemma_refused(R"(, "hidden_activation": "gelu")", "hf.config.unknown_activation", "gelu");
  expect_gemma_refused(R"(, "hidden_activation": "silu")", code, "it must be gelu_tanh");
  std::string text = gemma_text("");
  text.replace(text.find(R"("hidden_size_per_layer_input": 0)"),
               std::string(R"("hidden_size_per_layer_input": 0)").size(),
               R"("hidden_size_per_layer_input": 128)");
  expect_error(read_config(text, "config.json"), code, "\"hidden_size_per_layer_input\" is 128");
}

// The class's defaults describe a different model: a dense one with per-layer embeddings.
TEST(Gemma4Config, RejectsMissingKeysWithUnsupportedDefaults) {
  const std::string code = "hf.config.unsupported_value";
  std::string text = gemma_text("");
  const auto without = [&](const std::string& member) {
    std::string less = text;
    return less.erase(less.find(member), member.size());
  };
  expect_error(read_config(without(R"("hidden_size_per_layer_input": 0, )"), "config.json"), code,
               "\"hidden_size_per_layer_input\" is absent, which means 256");
  expect_error(read_config(without(R"("enable_moe_block": true,)"), "config.json"), code,
               "\"enable_moe_block\" is absent, which means false");
  expect_error(read_config(without(R"("num_experts": 6, )"), "config.json"),
               "hf.config.missing_key", "num_experts");
}

TEST(Gemma4Config, OmitsTowers) {
  std::string text = gemma_text("");
  text = R"({"model_type": "gemma4", "vision_config": {"depth": 2}, "image_token_id": 7,
      "tie_word_embeddings": true, "text_config": )" +
         text + "}";
  const auto config = read_config(text, "config.json");
  ASSERT_TRUE(config.has_value()) << render(config.error());
  EXPECT_EQ(config->model.names("embed"), "model.language_model.embed_tokens.weight");
  EXPECT_TRUE(config->model.head.tied);
  const std::vector<std::string>& ignored = config->model.names.ignored;
  EXPECT_NE(std::find(ignored.begin(), ignored.end(), "model.vision_tower.*"), ignored.end());
}

}  // namespace
}  // namespace moec
