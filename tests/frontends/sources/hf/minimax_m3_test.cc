// Configs of MiniMax-M3, and keys inside an object of a config.
#include "tests/frontends/sources/hf/layer_lists.h"
#include "tests/frontends/sources/hf/small_config.h"

namespace moec {
namespace {

const char* const kMinimaxM3 = "minimax_m3_vl_text";

// Reads a small config with additional members.
Result<HfConfig> read_m3(const std::string& members) {
  return read_config(small_text(kMinimaxM3, R"("num_local_experts": 6, "num_experts_per_tok": 2,
          "intermediate_size": 12, "shared_intermediate_size": 14, "dense_intermediate_size": 24)" +
                                                members),
                     "config.json");
}

ModelConfig m3(const std::string& members = "") {
  Result<HfConfig> config = read_m3(members);
  EXPECT_TRUE(config.has_value()) << render(config.error());
  return config ? std::move(config->model) : ModelConfig{};
}

void expect_m3_refused(const std::string& members, const std::string& code,
                       const std::string& part) {
  expect_error(read_m3(members), code, part);
}

TEST(MinimaxM3, ExtendsTheRoutingOfM2) {
  const ModelConfig model = m3(R"(, "routed_scaling_factor": 1.5)");
  const Router wanted{
      .score = Score::sigmoid, .top_k = 2, .renorm = Renorm::sum, .eps = 0, .scale = 1.5};
  EXPECT_EQ(model.moe.routing, wanted);
  EXPECT_TRUE(model.moe.choice_bias);
  EXPECT_FALSE(model.moe.shared_gated);
  EXPECT_EQ(model.moe.shared_ff, 14);
  EXPECT_EQ(model.mlp.ff, 24);
  EXPECT_EQ(m3().moe.routing.scale, 2);
  expect_m3_refused(R"(, "scoring_func": "softmax")", "hf.config.unsupported_value", "softmax");
  expect_m3_refused(R"(, "n_shared_experts": 2)", "hf.config.unsupported_value",
                    "\"n_shared_experts\" is 2");
}

TEST(MinimaxM3, AddsOneToNormWeights) {
  EXPECT_EQ(m3().norm.kind, NormKind::rms_plus_one);
  EXPECT_EQ(m3().attention.qk_norm, QkNormWidth::per_head);
  expect_m3_refused(R"(, "use_gemma_norm": false)", "hf.config.unsupported_value",
                    "\"use_gemma_norm\" is false");
}

// Both names of the activation denote the clamped one.
TEST(MinimaxM3, ClampsTheActivation) {
  const Gating usual{Activation::clamped_swiglu, 7, 1.702};
  EXPECT_EQ(m3().mlp.gating, usual);
  Result<HfConfig> published =
      read_config(fmt::format(R"({{"model_type": "{}", "hidden_act": "swigluoai", "swiglu_limit": 4,
          "swiglu_alpha": 1.5}})",
                              kMinimaxM3),
                  "config.json");
  ASSERT_TRUE(published.has_value()) << render(published.error());
  const Gating other{Activation::clamped_swiglu, 4, 1.5};
  EXPECT_EQ(published->model.mlp.gating, other);
  expect_error(
      read_config(R"({"model_type": "minimax_m3_vl_text", "hidden_act": "gelu"})", "config.json"),
      "hf.config.unsupported_value", "\"hidden_act\" is \"gelu\"");
}

// The class does not read rotary_dim.
TEST(MinimaxM3, UsesThePartialRotaryFactor) {
  EXPECT_EQ(m3().attention.rope.dims, 8);
  EXPECT_EQ(m3(R"(, "rotary_dim": 2, "partial_rotary_factor": 0.5)").attention.rope.dims, 4);
  EXPECT_EQ(m3().attention.rope.theta, 5e6);
}

TEST(MinimaxM3, SelectsMoeLayers) {
  EXPECT_EQ(moe_layers(m3()), (std::vector<bool>{true, true, true, true}));
  const std::vector<bool> three = {false, true, true, true};
  EXPECT_EQ(moe_layers(m3(R"(, "moe_layer_freq": [0, 1, 1, 1])")), three);
  const std::string types = R"(, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"])";
  EXPECT_EQ(moe_layers(m3(types)), three);
  EXPECT_EQ(moe_layers(m3(types + R"(, "moe_layer_freq": [0, 1, 1, 1])")), three);
  expect_m3_refused(
      types + R"(, "moe_layer_freq": [1, 1, 1, 1])", "hf.config.conflict",
      "\"mlp_layer_types\" and \"moe_layer_freq\" describe the same layers differently");
  expect_m3_refused(R"(, "moe_layer_freq": [0, 1])", "hf.config.layer_types",
                    "\"moe_layer_freq\" has 2 entries for 4 layers");
  expect_m3_refused(R"(, "moe_layer_freq": 1)", "hf.config.type",
                    "a list of 1 or true, and 0 or false");
}

std::string indexer(const std::string& members) {
  return R"(, "sparse_attention_config": {)" + members + "}";
}

const char* const kBlocks = R"("sparse_topk_blocks": 5, "sparse_block_size": 4)";
const std::string kLastIndexed = R"(, "sparse_attention_freq": [0, 0, 0, 1])";

// Up to this number of tokens, the indexer selects all of them.
TEST(MinimaxM3, LimitsTheContextToIndexedTokens) {
  const Result<HfConfig> limited = read_m3(indexer(kBlocks + kLastIndexed));
  ASSERT_TRUE(limited.has_value()) << render(limited.error());
  EXPECT_EQ(limited->model.max_positions, 20);
  ASSERT_EQ(limited->warnings.size(), 1u);
  EXPECT_EQ(limited->warnings[0].code, "hf.config.indexer");
  EXPECT_NE(limited->warnings[0].cause.find("20 tokens (\"index_topk_blocks\")"),
            std::string::npos);
  EXPECT_EQ(m3(indexer(kLastIndexed.substr(2))).max_positions, 64) << "2048 exceeds the context";
  const std::string types = R"(, "index_topk_blocks": 3, "index_block_size": 7, "layer_types": [
      "full_attention", "full_attention", "full_attention", "minimax_m3_sparse"])";
  EXPECT_EQ(m3(types).max_positions, 21);
}

TEST(MinimaxM3, KeepsTheContextWithoutIndexedLayers) {
  const std::string full = R"(, "layer_types": ["full_attention", "full_attention",
      "full_attention", "full_attention"])";
  EXPECT_EQ(m3(indexer(kBlocks)).max_positions, 64);
  EXPECT_EQ(m3(indexer(kBlocks) + full).max_positions, 64);
  EXPECT_EQ(m3(indexer(kBlocks + std::string(R"(, "sparse_attention_freq": [0, 0, 0, 0])")))
                .max_positions,
            64);
  expect_m3_refused(indexer(kBlocks + kLastIndexed) + full, "hf.config.conflict",
                    "\"layer_types\" and \"sparse_attention_config.sparse_attention_freq\" "
                    "describe the same layers differently");
}

TEST(MinimaxM3, RequiresWholeBlockNumbers) {
  expect_m3_refused(R"(, "index_block_size": 0)", "hf.config.range", "\"index_block_size\" is 0");
  expect_m3_refused(R"(, "index_topk_blocks": 2.5)", "hf.config.type", "must be an integer");
  expect_m3_refused(R"(, "index_topk_blocks": 1000000, "index_block_size": 1000000)",
                    "hf.config.range", "\"chosen_keys\" is 1000000000000");
}

TEST(InnerKeys, AreCheckedLikeOuterKeys) {
  expect_m3_refused(indexer(R"("sparse_topk_block": 5)"), "hf.config.unknown_key",
                    "\"sparse_attention_config.sparse_topk_block\" (5) is not known to the family "
                    "minimax_m3_vl_text (did you mean "
                    "'sparse_attention_config.sparse_topk_blocks'");
  expect_m3_refused(indexer(R"("sparse_topk_blocks": 5)") + R"(, "index_topk_blocks": 4)",
                    "hf.config.conflict",
                    "\"index_topk_blocks\" is 4 and \"sparse_attention_config.sparse_topk_blocks\" "
                    "is 5");
  // Members of the object are not keys of the outer config.
  expect_m3_refused(R"(, "sparse_topk_blocks": 5)", "hf.config.unknown_key",
                    "\"sparse_topk_blocks\"");
  expect_m3_refused(indexer(R"("hidden_size": 64)"), "hf.config.unknown_key",
                    "\"sparse_attention_config.hidden_size\" (64)");
}

TEST(InnerKeys, AllowAnAbsentOrEmptyObject) {
  for (const char* object :
       {"", R"(, "sparse_attention_config": null)", R"(, "sparse_attention_config": {})"})
    EXPECT_EQ(m3(object).max_positions, 64) << object;
  expect_m3_refused(R"(, "sparse_attention_config": true)", "hf.config.type",
                    "\"sparse_attention_config\" must be an object or a list, found a boolean");
  expect_m3_refused(R"(, "sparse_attention_config": [1])", "hf.config.unknown_key",
                    "\"sparse_attention_config.0\" (1)");
}

TEST(InnerKeys, RejectNamesWithADot) {
  expect_m3_refused(
      R"(, "sparse_attention_config.sparse_topk_blocks": 5)", "hf.config.unknown_key",
      "the key \"sparse_attention_config.sparse_topk_blocks\" must be inside an object");
}

TEST(InnerKeys, KeepTheirPositions) {
  const Result<HfConfig> config = read_config(
      "{\"model_type\": \"minimax_m3_vl_text\",\n\"sparse_attention_config\": {\n"
      "  \"sparse_eyes\": 2}}",
      "config.json");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().front().place.line, 3);
}

}  // namespace
}  // namespace moec
