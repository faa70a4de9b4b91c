// Configs whose text model is an object within the config of a larger model.
#include <gmock/gmock.h>

#include "models/families/family.h"
#include "tests/frontends/sources/hf/small_config.h"

namespace moec {
namespace {

const char* const kText = R"("hidden_size": 32, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 50,
    "max_position_embeddings": 64, "n_routed_experts": 6, "num_experts_per_tok": 2,
    "moe_intermediate_size": 12, "intermediate_size": 24, "q_lora_rank": 10, "n_group": 1,
    "topk_group": 1, "kv_lora_rank": 9, "qk_nope_head_dim": 5, "qk_rope_head_dim": 4,
    "v_head_dim": 7)";

// Reads a Kimi-K2.5 config with additional members inside the text model and next to it.
Result<HfConfig> read_kimi(const std::string& inside, const std::string& beside) {
  return read_config(fmt::format(R"({{"model_type": "kimi_k25", "vision_config": {{"depth": 2}},
      "text_config": {{{}{}}}{}}})",
                                 kText, inside, beside),
                     "config.json");
}

HfConfig kimi(const std::string& inside = "", const std::string& beside = "") {
  Result<HfConfig> config = read_kimi(inside, beside);
  EXPECT_TRUE(config.has_value()) << render(config.error());
  return config ? std::move(*config) : HfConfig{};
}

TEST(NestedConfig, ReadsTheTextModel) {
  for (const char* type :
       {"", R"(, "model_type": "kimi_k2")", R"(, "model_type": "deepseek_v3")"}) {
    const HfConfig config = kimi(type);
    EXPECT_EQ(config.model.family, "deepseek_v3");
    EXPECT_EQ(config.model.hidden, 32);
    EXPECT_EQ(config.model.names("embed"), "language_model.model.embed_tokens.weight");
  }
}

// The name prefixes of transformers, of its older versions, and of mlx.
TEST(NestedConfig, AcceptsEachOrderOfNesting) {
  for (const Family& family : known_families())
    for (const Family& nested : family.nested) {
      const auto& embed = nested.tensors.at("embed");
      for (const char* order :
           {"model.language_model.", "language_model.model.", "language_model."})
        EXPECT_THAT(embed, testing::Contains(order + std::string("embed_tokens.weight")))
            << nested.outer->model_type;
      EXPECT_THAT(nested.tensors.at("lm_head"),
                  testing::IsSupersetOf({"lm_head.weight", "language_model.lm_head.weight"}));
    }
}

// The outer model's class ties the head by default; the text model's class does not.
TEST(NestedConfig, TiesHeadsLikeTheOuterModel) {
  EXPECT_TRUE(kimi().model.head.tied);
  EXPECT_TRUE(kimi(R"(, "tie_word_embeddings": false)").model.head.tied);
  EXPECT_FALSE(kimi("", R"(, "tie_word_embeddings": false)").model.head.tied);
  EXPECT_FALSE(kimi(R"(, "tie_word_embeddings": true)", R"(, "tie_word_embeddings": false)")
                   .model.head.tied);
}

TEST(NestedConfig, AcceptsStorageInBothPlaces) {
  const std::string fp8 = R"(, "quantization_config": {"quant_method": "fp8",
      "weight_block_size": [8, 8]})";
  for (const auto& [inside, beside] :
       std::vector<std::pair<std::string, std::string>>{{fp8, ""}, {"", fp8}, {fp8, fp8}})
    EXPECT_EQ(kimi(inside, beside).model.stored.coding, WeightCoding::fp8_blocks);
  expect_error(read_kimi(fp8, R"(, "quantization_config": {"quant_method": "mxfp4"})"),
               "hf.config.conflict", "\"text_config.quantization_config\" differ");
}

TEST(NestedConfig, RejectsUnknownKeysInBothPlaces) {
  expect_error(read_kimi("", R"(, "eyes": 2)"), "hf.config.unknown_key",
               "the key \"eyes\" (2) is not known to the family kimi_k25");
  expect_error(read_kimi(R"(, "eyes": 2)", ""), "hf.config.unknown_key",
               "the key \"eyes\" (2) is not known to the family deepseek_v3");
  expect_error(read_kimi(R"(, "vision_config": {})", ""), "hf.config.unknown_key",
               "\"vision_config\"");
  expect_error(read_kimi("", R"(, "is_encoder_decoder": true)"), "hf.config.unsupported_value",
               "\"is_encoder_decoder\" is true; for the family");
}

TEST(NestedConfig, RejectsAnotherTextModel) {
  expect_error(read_kimi(R"(, "model_type": "qwen3_moe")", ""), "hf.family.unsupported",
               "the text model inside \"kimi_k25\" is \"qwen3_moe\"; only");
  for (const char* without :
       {R"({"model_type": "kimi_k25"})", R"({"model_type": "kimi_k25", "text_config": null})"})
    expect_error(read_config(without, "config.json"), "hf.config.missing_key",
                 "must have its text model in the object \"text_config\"");
}

}  // namespace
}  // namespace moec
