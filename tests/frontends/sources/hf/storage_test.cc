// quantization_config: how a checkpoint stores its matrices.
#include "frontends/sources/hf/config.h"
#include "models/published/published.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

// Reads a published config with another quantization_config.
Result<HfConfig> config_with(const std::string& model, const std::string& storage) {
  std::string text((*find_published(model))->config);
  const size_t last = text.rfind('}');
  return read_config(text.substr(0, last) + R"(, "quantization_config": )" + storage + "}",
                     "c.json");
}

Result<HfConfig> mixtral_with(const std::string& storage) {
  return config_with("mixtral-8x7b", storage);
}

TEST(StorageConfig, IsPlainByDefault) {
  EXPECT_EQ(mixtral_with("null")->model.stored, StoredWeights{});
}

TEST(StorageConfig, ReadsFp8BlocksInAnyFamily) {
  const auto config = mixtral_with(R"({"quant_method": "fp8", "fmt": "e4m3",
      "activation_scheme": "dynamic", "scale_fmt": "ue8m0", "weight_block_size": [128, 64],
      "modules_to_not_convert": ["lm_head"]})");
  ASSERT_TRUE(config.has_value()) << render(config.error());
  EXPECT_EQ(config->model.stored, (StoredWeights{WeightCoding::fp8_blocks, {128, 64}}));
}

TEST(StorageConfig, ReadsMxfp4) {
  const auto config = mixtral_with(R"({"quant_method": "mxfp4"})");
  ASSERT_TRUE(config.has_value()) << render(config.error());
  EXPECT_EQ(config->model.stored, (StoredWeights{WeightCoding::mxfp4, {}}));
}

TEST(StorageConfig, ReadsPublishedConfigs) {
  auto stored = [](const char* model) {
    const PublishedModel& published = **find_published(model);
    return read_config(published.config, published.name)->model.stored;
  };
  EXPECT_EQ(stored("deepseek-v3"), (StoredWeights{WeightCoding::fp8_blocks, {128, 128}}));
  EXPECT_EQ(stored("kimi-k2"), (StoredWeights{WeightCoding::fp8_blocks, {128, 128}}));
  EXPECT_EQ(stored("gpt-oss-120b"), (StoredWeights{WeightCoding::mxfp4, {}}));
  EXPECT_EQ(stored("deepseek-v2-lite"), StoredWeights{});
}

TEST(StorageConfig, RejectsUnsupportedMethods) {
  expect_error(
      mixtral_with(R"({"quant_method": "gptq", "bits": 4})"), "hf.config.unknown_storage",
      "\"quantization_config.quant_method\" is \"gptq\"; known: fp8, mxfp4, compressed-tensors");
  expect_error(mixtral_with("{}"), "hf.config.unknown_storage", "is missing");
  expect_error(mixtral_with("4"), "hf.config.type", "must be an object");
}

TEST(StorageConfig, RequiresTwoBlockSizes) {
  for (const char* block :
       {"", R"(, "weight_block_size": null)", R"(, "weight_block_size": [128])",
        R"(, "weight_block_size": [128, 0])", R"(, "weight_block_size": [128, 128, 1])",
        R"(, "weight_block_size": "128")"})
    expect_error(mixtral_with(std::string(R"({"quant_method": "fp8")") + block + "}"),
                 "hf.config.unsupported_value", "weight_block_size\" must be two sizes above 0");
}

// The published quantization_config of Kimi-K2-Thinking with the first `edited` replaced by `as`.
std::string int4_config(const std::string& edited = {}, const std::string& as = {}) {
  std::string text = R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
      "quantization_status": "compressed", "kv_cache_scheme": null, "ignore": ["lm_head"],
      "config_groups": {"group_0": {"input_activations": null, "output_activations": null,
          "targets": ["Linear"], "weights": {"actorder": null, "block_structure": null,
              "dynamic": false, "group_size": 32, "num_bits": 4, "observer": "minmax",
              "observer_kwargs": {}, "strategy": "group", "symmetric": true, "type": "int"}}}})";
  const size_t at = text.find(edited);
  EXPECT_NE(at, std::string::npos) << edited;
  return text.replace(at, edited.size(), as);
}

TEST(StorageConfig, ReadsInt4Groups) {
  const auto config = mixtral_with(int4_config());
  ASSERT_TRUE(config.has_value()) << render(config.error());
  EXPECT_EQ(config->model.stored, (StoredWeights{WeightCoding::int4_groups, {1, 32}}));
  EXPECT_EQ(config->model.names.ignored.back(), "*.weight_shape");
}

TEST(StorageConfig, RejectsOtherCompressedTensors) {
  const struct {
    const char *edited, *as, *message;
  } faults[] = {
      {"pack-quantized", "naive-quantized",
       "\"quantization_config.format\" is \"naive-quantized\""},
      {"\"num_bits\": 4", "\"num_bits\": 8", ".num_bits\" is 8, but must be 4"},
      {"\"type\": \"int\"", "\"type\": \"float\"", ".type\" is \"float\", but must be \"int\""},
      {"\"strategy\": \"group\",", "", ".strategy\" is missing, but must be \"group\""},
      {"\"symmetric\": true", "\"symmetric\": false", ".symmetric\" is false, but must be true"},
      {"\"actorder\": null", "\"actorder\": \"group\"", ".actorder\" is \"group\""},
      {"\"group_size\": 32", "\"group_size\": -1", ".group_size\" must be a size above 0"},
      {"\"input_activations\": null", "\"input_activations\": {\"num_bits\": 8}",
       "must be one group with weights only"},
      {"\"kv_cache_scheme\": null", "\"kv_cache_scheme\": {\"num_bits\": 8}",
       "kv_cache_scheme\" must be empty"},
  };
  for (const auto& fault : faults)
    expect_error(mixtral_with(int4_config(fault.edited, fault.as)), "hf.config.unsupported_value",
                 fault.message);
  expect_error(mixtral_with(int4_config("\"num_bits\": 4", "\"num_bits\": 4, \"outliers\": 3")),
               "hf.config.unknown_key", "config_groups.weights.outliers\" (3)");
}

TEST(StorageConfig, RejectsUnknownFieldsAndValues) {
  expect_error(mixtral_with(R"({"quant_method": "fp8", "weight_block_size": [8, 8],
                                "zero_point": true})"),
               "hf.config.unknown_key", "\"quantization_config.zero_point\" (true)");
  expect_error(mixtral_with(R"({"quant_method": "fp8", "weight_block_size": [8, 8],
                                "fmt": "e5m2"})"),
               "hf.config.unsupported_value", "\"quantization_config.fmt\" is \"e5m2\"");
}

}  // namespace
}  // namespace moec
