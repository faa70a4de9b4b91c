// quantization_config: how a checkpoint stores its matrices.
#include "frontends/hf/config.h"
#include "models/published.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

// The published config of a model with another quantization_config.
Result<HfConfig> config_with(const std::string& model, const std::string& storage) {
  std::string text((*find_published(model))->config);
  const size_t last = text.rfind('}');
  return read_config(text.substr(0, last) + R"(, "quantization_config": )" + storage + "}",
                     "c.json");
}

Result<HfConfig> mixtral_with(const std::string& storage) {
  return config_with("mixtral-8x7b", storage);
}

TEST(StorageConfig, PlainWithoutAWord) {
  EXPECT_EQ(mixtral_with("null")->model.stored, StoredWeights{});
}

TEST(StorageConfig, Fp8InBlocksForAnyFamily) {
  const auto config = mixtral_with(R"({"quant_method": "fp8", "fmt": "e4m3",
      "activation_scheme": "dynamic", "weight_block_size": [128, 64],
      "modules_to_not_convert": ["lm_head"]})");
  ASSERT_TRUE(config.has_value()) << render(config.error());
  EXPECT_EQ(config->model.stored, (StoredWeights{WeightCoding::fp8_blocks, {128, 64}}));
}

TEST(StorageConfig, Mxfp4) {
  const auto config = mixtral_with(R"({"quant_method": "mxfp4"})");
  ASSERT_TRUE(config.has_value()) << render(config.error());
  EXPECT_EQ(config->model.stored, (StoredWeights{WeightCoding::mxfp4, {}}));
}

TEST(StorageConfig, WhatPublishedModelsSay) {
  auto stored = [](const char* model) {
    const PublishedModel& published = **find_published(model);
    return read_config(published.config, published.name)->model.stored;
  };
  EXPECT_EQ(stored("deepseek-v3"), (StoredWeights{WeightCoding::fp8_blocks, {128, 128}}));
  EXPECT_EQ(stored("kimi-k2"), (StoredWeights{WeightCoding::fp8_blocks, {128, 128}}));
  EXPECT_EQ(stored("gpt-oss-120b"), (StoredWeights{WeightCoding::mxfp4, {}}));
  EXPECT_EQ(stored("deepseek-v2-lite"), StoredWeights{});
}

TEST(StorageConfig, OtherMethodsAreNamed) {
  expect_error(mixtral_with(R"({"quant_method": "gptq", "bits": 4})"), "hf.config.unknown_storage",
               "\"quantization_config.quant_method\" is \"gptq\"; known: fp8, mxfp4");
  expect_error(mixtral_with("{}"), "hf.config.unknown_storage", "is missing");
  expect_error(mixtral_with("4"), "hf.config.type", "must be an object");
}

TEST(StorageConfig, BlocksAreTwoSizes) {
  for (const char* block :
       {"", R"(, "weight_block_size": null)", R"(, "weight_block_size": [128])",
        R"(, "weight_block_size": [128, 0])", R"(, "weight_block_size": [128, 128, 1])",
        R"(, "weight_block_size": "128")"})
    expect_error(mixtral_with(std::string(R"({"quant_method": "fp8")") + block + "}"),
                 "hf.config.unsupported_value", "weight_block_size\" must be two sizes above 0");
}

TEST(StorageConfig, WhatElseIsSaidIsAnError) {
  expect_error(mixtral_with(R"({"quant_method": "fp8", "weight_block_size": [8, 8],
                                "zero_point": true})"),
               "hf.config.unknown_key", "\"quantization_config.zero_point\" (true)");
  expect_error(mixtral_with(R"({"quant_method": "fp8", "weight_block_size": [8, 8],
                                "fmt": "e5m2"})"),
               "hf.config.unsupported_value", "\"quantization_config.fmt\" is \"e5m2\"");
}

}  // namespace
}  // namespace moec
