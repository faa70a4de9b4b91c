// Configs of families published in 2025 and 2026: every key that changes the computation.
#include "tests/frontends/sources/hf/layer_lists.h"
#include "tests/frontends/sources/hf/small_config.h"

namespace moec {
namespace {

const char* const kGlmLite = R"("n_routed_experts": 6, "num_experts_per_tok": 2,
    "moe_intermediate_size": 12, "intermediate_size": 24, "n_shared_experts": 2, "q_lora_rank": 10,
    "kv_lora_rank": 9, "qk_nope_head_dim": 5, "qk_rope_head_dim": 4, "v_head_dim": 7)";

ModelConfig glm_lite(const std::string& members) {
  return small_model("glm4_moe_lite", kGlmLite + members);
}

void expect_glm_lite_refused(const std::string& members, const std::string& code,
                             const std::string& part) {
  expect_family_refused("glm4_moe_lite", kGlmLite + members, code, part);
}

TEST(FamilyConfig, ReadsGlmLite) {
  const ModelConfig model = glm_lite(R"(, "rope_theta": 1000000, "routed_scaling_factor": 1.5)");
  ASSERT_TRUE(model.attention.latent.has_value());
  EXPECT_EQ(model.attention.latent->q_rank, 10);
  EXPECT_EQ(model.attention.rope.theta, 1e6);
  EXPECT_EQ(model.attention.rope.style, RopeStyle::interleaved);
  EXPECT_EQ(model.moe.shared_ff, 24);
  const Router wanted{.score = Score::sigmoid,
                      .top_k = 2,
                      .renorm = Renorm::sum_plus_eps,
                      .eps = 1e-20,
                      .scale = 1.5,
                      .group_score = GroupScore::top2_sum};
  EXPECT_EQ(model.moe.routing, wanted);
  EXPECT_TRUE(model.moe.choice_bias);
}

TEST(FamilyConfig, GlmLiteListsDenseLayers) {
  EXPECT_EQ(moe_layers(glm_lite("")), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(moe_layers(glm_lite(R"(, "mlp_layer_types": ["sparse", "dense", "sparse", "sparse"])")),
            (std::vector<bool>{true, false, true, true}));
  expect_glm_lite_refused(R"(, "mlp_layer_types": ["sparse", "dense"])", "hf.config.layer_types",
                          "\"mlp_layer_types\" has 2 entries for 4 layers");
  expect_glm_lite_refused(R"(, "mlp_layer_types": ["sparse", "thin", "sparse", "sparse"])",
                          "hf.config.unknown_layer_type", "\"thin\"; known: dense, sparse");
}

// The class reads neither key; values for which the released model computes differently are
// rejected.
TEST(FamilyConfig, GlmLiteChecksUnreadKeys) {
  for (const char* first : {"0", "1", "2"}) {
    const ModelConfig model = glm_lite(
        fmt::format(R"(, "first_k_dense_replace": {}, "partial_rotary_factor": 1.0)", first));
    EXPECT_FALSE(model.layers[0].moe);
    EXPECT_TRUE(model.layers[1].moe);
  }
  expect_glm_lite_refused(R"(, "partial_rotary_factor": 0.5)", "hf.config.unsupported_value",
                          "\"partial_rotary_factor\" is 0.5");
}

// The class treats head_dim as an alias of the number of rotated dims.
TEST(FamilyConfig, ReadsGlmHeadDimAsAlias) {
  EXPECT_EQ(glm_lite(R"(, "head_dim": 4)").attention.rope.dims, 4);
  expect_glm_lite_refused(R"(, "head_dim": 6)", "hf.config.conflict",
                          "\"qk_rope_head_dim\" is 4 and \"head_dim\" is 6");
}

const char* const kNoaux = R"("num_experts_per_tok": 2, "moe_intermediate_size": 12,
    "intermediate_size": 24)";

TEST(FamilyConfig, ReadsHunyuanV3) {
  const std::string hy = kNoaux + std::string(R"(, "num_experts": 6)");
  const ModelConfig model = small_model("hy_v3", hy);
  const Router wanted{.score = Score::sigmoid,
                      .top_k = 2,
                      .renorm = Renorm::sum_plus_eps,
                      .eps = 1e-20,
                      .scale = 2.826};
  EXPECT_EQ(model.moe.routing, wanted);
  EXPECT_EQ(model.moe.shared_ff, 12);
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::per_head);
  EXPECT_EQ(model.attention.rope.theta, 11158840);
  EXPECT_EQ(moe_layers(model), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(tensor_dims(model, "model.layers.1.mlp.expert_bias"), (Dims{6}));
  EXPECT_EQ(tensor_dims(model, "model.layers.1.mlp.shared_mlp.up_proj.weight"), (Dims{12, 32}));
  EXPECT_EQ(small_model("hy_v3", hy + R"(, "router_scaling_factor": 2)").moe.routing.scale, 2);
  EXPECT_TRUE(small_model("hy_v3", hy + R"(, "mlp_bias": true)").mlp.bias);
}

TEST(FamilyConfig, DotsAppliesWindowsFromALayer) {
  const std::string dots =
      kNoaux + std::string(R"(, "n_routed_experts": 6, "n_shared_experts": 2)");
  auto windows = [&](const std::string& members) {
    std::vector<int64_t> all;
    for (const LayerConfig& layer : small_model("dots1", dots + members).layers)
      all.push_back(layer.window);
    return all;
  };
  using Windows = std::vector<int64_t>;
  EXPECT_EQ(windows(""), (Windows{0, 0, 0, 0})) << "the first 62 layers have no window by default";
  EXPECT_EQ(windows(R"(, "max_window_layers": 2)"), (Windows{0, 0, 4096, 4096}));
  EXPECT_EQ(windows(R"(, "max_window_layers": 3, "sliding_window": 7)"), (Windows{0, 0, 0, 7}));
  EXPECT_EQ(windows(R"(, "max_window_layers": 0, "sliding_window": null)"), (Windows{0, 0, 0, 0}));
  const ModelConfig model = small_model("dots1", dots);
  EXPECT_EQ(model.moe.shared_ff, 24);
  EXPECT_EQ(model.moe.routing.renorm, Renorm::none) << "only if norm_topk_prob is true";
  expect_family_refused("dots1", kNoaux + std::string(R"(, "n_routed_experts": 6)"),
                        "hf.config.missing_key", "n_shared_experts");
}

TEST(FamilyConfig, SolarOpenHasExpertsEverywhere) {
  const std::string solar = kNoaux + std::string(R"(, "n_routed_experts": 6)");
  const ModelConfig model = small_model("solar_open", solar);
  EXPECT_EQ(moe_layers(model), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::none);
  EXPECT_EQ(model.attention.rope.theta, 1e6);
  expect_family_refused("solar_open", solar + R"(, "first_k_dense_replace": 1)",
                        "hf.config.unsupported_value", "\"first_k_dense_replace\" is 1");
  expect_family_refused("solar_open", solar + R"(, "partial_rotary_factor": 0.5)",
                        "hf.config.unsupported_value", "\"partial_rotary_factor\" is 0.5");
}

const char* const kIndexed = R"(, "n_routed_experts": 6, "q_lora_rank": 10, "kv_lora_rank": 9,
    "qk_nope_head_dim": 5, "qk_rope_head_dim": 4, "v_head_dim": 7, "n_group": 1, "topk_group": 1,
    "index_n_heads": 2, "index_head_dim": 8)";

// Up to this number of keys, the indexer selects all of them.
TEST(FamilyConfig, LimitsTheContextToIndexedKeys) {
  for (const char* family : {"deepseek_v32", "glm_moe_dsa"}) {
    auto with = [&](const char* members) {
      return read_config(small_text(family, kNoaux + std::string(kIndexed) + members),
                         "config.json");
    };
    const Result<HfConfig> limited = with(R"(, "index_topk": 40)");
    ASSERT_TRUE(limited.has_value()) << render(limited.error());
    EXPECT_EQ(limited->model.max_positions, 40);
    ASSERT_EQ(limited->warnings.size(), 1u);
    EXPECT_EQ(limited->warnings[0].code, "hf.config.indexer");
    const Result<HfConfig> whole = with("");
    ASSERT_TRUE(whole.has_value()) << render(whole.error());
    EXPECT_EQ(whole->model.max_positions, 64) << "2048 keys exceed the context";
    EXPECT_TRUE(whole->warnings.empty());
    EXPECT_TRUE(with(R"(, "layer_types": ["indexed_attention", "deepseek_sparse_attention",
        "indexed_attention", "indexed_attention"])"));
    expect_error(with(R"(, "rope_interleave": false)"), "hf.config.unsupported_value",
                 "\"rope_interleave\" is false");
  }
}

TEST(FamilyConfig, RejectsIndexedLayersInOtherFamilies) {
  expect_family_refused("dots1",
                        kNoaux + std::string(R"(, "n_routed_experts": 6, "n_shared_experts": 1,
      "layer_types": ["full_attention", "indexed_attention", "full_attention", "full_attention"])"),
                        "hf.config.unknown_layer_type", "indexed_attention");
}

// The sections of a rotation distinguish position axes, which are equal for text.
TEST(FamilyConfig, ReadsSectionsOfTheRotation) {
  const std::string sections = R"(, "rope_scaling": {"rope_type": "default",
      "mrope_section": [2, 1, 1], "mrope_interleaved": true})";
  const std::string qwen = kNoaux + std::string(R"(, "num_experts": 6)") + sections;
  const RopeConfig rope = small_model("qwen3_vl_moe_text", qwen).attention.rope;
  EXPECT_EQ(rope.theta, 500000);
  EXPECT_EQ(rope.dims, 8);
  EXPECT_EQ(rope.scaling, RopeScaling::none);
  expect_family_refused("qwen3_moe", qwen, "hf.config.unknown_key", "mrope_section");
}

TEST(FamilyConfig, Qwen3VlRenormalizes) {
  const std::string qwen = kNoaux + std::string(R"(, "num_experts": 6)");
  const ModelConfig model = small_model("qwen3_vl_moe_text", qwen);
  EXPECT_EQ(model.moe.routing.renorm, Renorm::sum);
  EXPECT_EQ(tensor_dims(model, "model.layers.0.mlp.experts.gate_up_proj"), (Dims{6, 32, 24}));
  expect_family_refused("qwen3_vl_moe_text", qwen + R"(, "norm_topk_prob": false)",
                        "hf.config.unsupported_value", "\"norm_topk_prob\" is false");
}

TEST(FamilyConfig, Glm4vHasBiasesByDefault) {
  const std::string glm = kNoaux + std::string(R"(, "n_routed_experts": 6)");
  const ModelConfig model = small_model("glm4v_moe_text", glm);
  EXPECT_TRUE(model.attention.qkv_bias);
  EXPECT_FALSE(model.attention.o_bias);
  EXPECT_EQ(model.attention.rope.dims, 4) << "half of each head";
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::none);
}

}  // namespace
}  // namespace moec
