// Configs of families that consist of a descriptor alone.
#include "tests/frontends/sources/hf/layer_lists.h"
#include "tests/frontends/sources/hf/small_config.h"

namespace moec {
namespace {

const char* const kMellum = R"("num_experts": 6, "num_experts_per_tok": 2,
    "moe_intermediate_size": 12, "intermediate_size": 24)";

TEST(MellumConfig, SelectsWindowsByLayerType) {
  EXPECT_EQ(layer_windows(small_model("mellum", kMellum)), (std::vector<int64_t>{0, 0, 0, 0}));
  const std::string types = R"(, "layer_types": ["sliding_attention", "full_attention",
      "sliding_attention", "full_attention"])";
  EXPECT_EQ(layer_windows(small_model("mellum", kMellum + types)),
            (std::vector<int64_t>{1024, 0, 1024, 0}));
  EXPECT_EQ(layer_windows(small_model("mellum", kMellum + types + R"(, "sliding_window": 7)")),
            (std::vector<int64_t>{7, 0, 7, 0}));
  expect_family_refused("mellum", kMellum + types + R"(, "sliding_window": null)", "hf.config.type",
                        "sliding_window");
}

TEST(MellumConfig, SelectsDenseLayersByType) {
  EXPECT_EQ(moe_layers(small_model("mellum", kMellum)),
            (std::vector<bool>{true, true, true, true}));
  const std::string types = R"(, "mlp_layer_types": ["sparse", "dense", "sparse", "dense"])";
  EXPECT_EQ(moe_layers(small_model("mellum", kMellum + types)),
            (std::vector<bool>{true, false, true, false}));
}

TEST(MellumConfig, RenormalisesByDefault) {
  EXPECT_EQ(small_model("mellum", kMellum).moe.routing.renorm, Renorm::sum);
  EXPECT_EQ(small_model("mellum", std::string(kMellum) + R"(, "norm_topk_prob": false)")
                .moe.routing.renorm,
            Renorm::none);
}

const char* const kSarvam = R"("num_experts_per_tok": 2, "moe_intermediate_size": 12,
    "intermediate_size": 24, "kv_lora_rank": 9, "qk_nope_head_dim": 5, "qk_rope_head_dim": 4,
    "v_head_dim": 7)";

TEST(SarvamMlaConfig, ProjectsQueriesDirectlyByDefault) {
  const ModelConfig model = small_model("sarvam_mla", kSarvam);
  ASSERT_TRUE(model.attention.latent.has_value());
  EXPECT_EQ(model.attention.latent->q_rank, 0);
  EXPECT_EQ(model.moe.experts, 128);
  EXPECT_EQ(moe_layers(model), (std::vector<bool>{false, true, true, true}));
}

TEST(SarvamMlaConfig, ReadsTheKeysOfTheRelease) {
  const std::string release = R"(, "num_experts": 6, "num_shared_experts": 2, "q_head_dim": 9,
      "head_dim": 13, "moe_router_enable_expert_bias": true, "use_qk_norm": false,
      "rope_theta": 5000.0, "rope_scaling": {"type": "deepseek_yarn", "factor": 4.0,
      "original_max_position_embeddings": 16, "beta_fast": 8, "beta_slow": 2, "mscale": 1.0,
      "mscale_all_dim": 1.0})";
  const ModelConfig model = small_model("sarvam_mla", kSarvam + release);
  EXPECT_EQ(model.moe.experts, 6);
  EXPECT_EQ(model.moe.shared_ff, 24);
  EXPECT_EQ(model.attention.rope.scaling, RopeScaling::yarn);
  EXPECT_EQ(model.attention.rope.theta, 5000);
  EXPECT_EQ(model.attention.rope.factor, 4);
  expect_family_refused("sarvam_mla", std::string(kSarvam) + R"(, "use_qk_norm": true)",
                        "hf.config.unsupported_value", "use_qk_norm");
}

}  // namespace
}  // namespace moec
