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

// Integers in groups of a row.
StoredWeights stored_integers(WeightCoding coding, const IntegerCodes& codes) {
  StoredWeights stored{coding, {1, codes.elements}};
  stored.codes = codes;
  return stored;
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
  expect_error(mixtral_with(R"({"quant_method": "hqq", "bits": 4})"), "hf.config.unknown_storage",
               "\"quantization_config.quant_method\" is \"hqq\"; known: fp8, mxfp4, modelopt, "
               "compressed-tensors, gptq, awq, bitsandbytes");
  expect_error(mixtral_with("{}"), "hf.config.unknown_storage", "is missing");
  expect_error(mixtral_with("4"), "hf.config.type", "must be an object");
}

TEST(StorageConfig, RequiresTwoBlockSizes) {
  for (const char* block :
       {R"(, "weight_block_size": [128])", R"(, "weight_block_size": [128, 0])",
        R"(, "weight_block_size": [128, 128, 1])", R"(, "weight_block_size": "128")"})
    expect_error(mixtral_with(std::string(R"({"quant_method": "fp8")") + block + "}"),
                 "hf.config.unsupported_value", "weight_block_size\" is");
}

TEST(StorageConfig, ReadsOneFp8FactorPerMatrix) {
  for (const char* text : {R"({"quant_method": "fp8", "activation_scheme": "static"})",
                           R"({"quant_method": "modelopt", "quant_algo": "FP8"})"}) {
    const auto config = mixtral_with(text);
    ASSERT_TRUE(config.has_value()) << render(config.error());
    EXPECT_EQ(config->model.stored, (StoredWeights{WeightCoding::fp8_blocks, {0, 0}}));
  }
}

// The published quantization_config of Qwen3-30B-A3B-GPTQ-Int4, without the keys that do not change
// the codes.
std::string gptq_config(const std::string& more = "") {
  return R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": false, "sym": true,
             "true_sequential": true, "static_groups": false, "damp_percent": 0.01)" +
         more + "}";
}

TEST(StorageConfig, ReadsGptq) {
  const auto config = mixtral_with(gptq_config());
  ASSERT_TRUE(config.has_value()) << render(config.error());
  EXPECT_EQ(config->model.stored, stored_integers(WeightCoding::gptq, {4, 128, true}));
  EXPECT_EQ(config->model.names.ignored.back(), "*.g_idx");
  EXPECT_EQ(mixtral_with(gptq_config(R"(, "checkpoint_format": "gptq_v2")"))->model.stored,
            stored_integers(WeightCoding::gptq_v2, {4, 128, true}));
  EXPECT_EQ(mixtral_with(gptq_config(R"(, "format": "gptq_v2")"))->model.stored,
            stored_integers(WeightCoding::gptq_v2, {4, 128, true}));
  EXPECT_TRUE(mixtral_with(R"({"quant_method": "gptq", "bits": 8, "group_size": -1,
                               "desc_act": true})")
                  ->model.stored.indexed);
}

TEST(StorageConfig, RejectsOtherGptq) {
  const struct {
    const char *more, *message;
  } faults[] = {
      {R"(, "is_marlin_format": true)", ".is_marlin_format\" is true, but must be false"},
      {R"(, "checkpoint_format": "marlin")", ".checkpoint_format\" is \"marlin\", but must be"},
      {R"(, "checkpoint_format": "gptq", "format": "gptq_v2")",
       ".format\" is \"gptq_v2\", but must"},
      {R"(, "format": "marlin")", ".format\" is \"marlin\", but must be"},
      {R"(, "dynamic": {"+:.*gate.*": {"bits": 8}})", ".dynamic\" is"},
      {R"(, "pack_dtype": "int16")", ".pack_dtype\" is \"int16\""},
  };
  for (const auto& fault : faults)
    expect_error(mixtral_with(gptq_config(fault.more)), "hf.config.unsupported_value",
                 fault.message);
  expect_error(mixtral_with(gptq_config(R"(, "codebook": 2)")), "hf.config.unknown_key",
               "codebook\" (2)");
  expect_error(mixtral_with(R"({"quant_method": "gptq", "bits": 5, "group_size": 0,
                                "desc_act": false})"),
               "hf.config.unsupported_value", ".group_size\" is 0, but must be a size above 0");
}

TEST(StorageConfig, ReadsAwq) {
  const auto config = mixtral_with(R"({"quant_method": "awq", "bits": 4, "group_size": 128,
      "zero_point": true, "version": "gemm", "modules_to_not_convert": ["gate"]})");
  ASSERT_TRUE(config.has_value()) << render(config.error());
  EXPECT_EQ(config->model.stored, stored_integers(WeightCoding::awq, {4, 128, true}));
  expect_error(mixtral_with(R"({"quant_method": "awq", "bits": 4, "group_size": 128,
                                "version": "gemv"})"),
               "hf.config.unsupported_value", ".version\" is \"gemv\"");
}

// A config as transformers 5.24 writes it, with `edited` replaced by `as`.
std::string bitsandbytes_config(const std::string& edited = {}, const std::string& as = {}) {
  std::string text = R"({"_load_in_4bit": true, "_load_in_8bit": false,
      "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8",
      "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": true,
      "llm_int8_enable_fp32_cpu_offload": false, "llm_int8_has_fp16_weight": false,
      "llm_int8_skip_modules": ["lm_head"], "llm_int8_threshold": 6.0, "load_in_4bit": true,
      "load_in_8bit": false, "quant_method": "bitsandbytes"})";
  const size_t at = text.find(edited);
  EXPECT_NE(at, std::string::npos) << edited;
  return text.replace(at, edited.size(), as);
}

TEST(StorageConfig, ReadsBitsandbytes) {
  const auto config = mixtral_with(bitsandbytes_config());
  ASSERT_TRUE(config.has_value()) << render(config.error());
  StoredWeights stored{WeightCoding::nf4, {1, 64}};
  stored.nested = true;
  EXPECT_EQ(config->model.stored, stored);
  EXPECT_EQ(mixtral_with(R"({"load_in_4bit": true})")->model.stored,
            (StoredWeights{WeightCoding::fp4, {1, 64}}));
  EXPECT_EQ(
      mixtral_with(R"({"quant_method": "bitsandbytes", "_load_in_8bit": true})")->model.stored,
      (StoredWeights{WeightCoding::int8_rows, {1, 0}}));
}

TEST(StorageConfig, RejectsOtherBitsandbytes) {
  const struct {
    const char *edited, *as, *message;
  } faults[] = {
      {"\"nf4\"", "\"nf3\"", ".bnb_4bit_quant_type\" is \"nf3\", but must be \"fp4\" or \"nf4\""},
      {"\"uint8\"", "\"bfloat16\"", ".bnb_4bit_quant_storage\" is \"bfloat16\""},
      {"\"bnb_4bit_use_double_quant\": true", "\"bnb_4bit_use_double_quant\": 1",
       ".bnb_4bit_use_double_quant\" is 1"},
      {"\"load_in_4bit\": true", "\"load_in_4bit\": false",
       "load_in_4bit\" is false, but must be true"},
      {"\"_load_in_8bit\": false", "\"_load_in_8bit\": true",
       ".load_in_8bit\" is false, but must be true"},
      {"6.0", "\"six\"", ".llm_int8_threshold\" is \"six\", but must be a number"},
  };
  for (const auto& fault : faults)
    expect_error(mixtral_with(bitsandbytes_config(fault.edited, fault.as)),
                 "hf.config.unsupported_value", fault.message);
  expect_error(mixtral_with(R"({"quant_method": "bitsandbytes"})"), "hf.config.unsupported_value",
               ".load_in_4bit\" is missing, but must be true");
  expect_error(mixtral_with(R"({"load_in_8bit": true, "llm_int8_has_fp16_weight": true})"),
               "hf.config.unsupported_value", ".llm_int8_has_fp16_weight\" is true");
  expect_error(
      mixtral_with(bitsandbytes_config("\"quant_method\"", "\"outliers\": 1, \"quant_method\"")),
      "hf.config.unknown_key", "outliers\" (1)");
}

TEST(StorageConfig, ReadsMlx) {
  const auto config = mixtral_with(R"({"group_size": 64, "bits": 6, "mode": "affine",
      "model.layers.0.mlp.gate": false, "lm_head": {"group_size": 64, "bits": 6}})");
  ASSERT_TRUE(config.has_value()) << render(config.error());
  EXPECT_EQ(config->model.stored, stored_integers(WeightCoding::mlx, {6, 64, true}));
  expect_error(mixtral_with(R"({"group_size": 64, "bits": 6},
                                "quantization": {"group_size": 64, "bits": 4})"),
               "hf.config.conflict", "are different");
  expect_error(mixtral_with(R"({"group_size": 64, "bits": 4, "mode": "mxfp4"})"),
               "hf.config.unsupported_value", ".mode\" is \"mxfp4\"");
  EXPECT_TRUE(mixtral_with(R"({"group_size": 64, "bits": 4,
                               "model.layers.0.mlp.gate": {"group_size": 64, "bits": 8}})"));
  expect_error(mixtral_with(R"({"group_size": 64, "bits": 4,
                                "model.layers.0.mlp.gate": {"group_size": 32, "bits": 8}})"),
               "hf.config.unsupported_value", "gate.group_size\" is 32, but must be 64");
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
  EXPECT_EQ(config->model.stored, stored_integers(WeightCoding::int_groups, {4, 32}));
  EXPECT_EQ(config->model.names.ignored.back(), "*.weight_shape");
}

TEST(StorageConfig, RejectsOtherCompressedTensors) {
  const struct {
    const char *edited, *as, *message;
  } faults[] = {
      {"pack-quantized", "naive-quantized",
       "\"quantization_config.format\" is \"naive-quantized\""},
      {"\"num_bits\": 4", "\"num_bits\": 6", ".num_bits\" is 6, but must be 4 or 8"},
      {"\"type\": \"int\"", "\"type\": \"float\"", ".type\" is \"float\", but must be \"int\""},
      {"\"strategy\": \"group\",", "", ".strategy\" is missing, but must be \"group\""},
      {"\"symmetric\": true", "\"symmetric\": 3", ".symmetric\" is 3, but must be true or false"},
      {"\"actorder\": null", "\"actorder\": \"dynamic\"", ".actorder\" is \"dynamic\""},
      {"\"group_size\": 32", "\"group_size\": 0", ".group_size\" is 0, but must be a size above 0"},
      {"\"input_activations\": null", "\"input_activations\": {\"num_bits\": 8}",
       "must be one group with weights only"},
      {"\"kv_cache_scheme\": null", "\"kv_cache_scheme\": {\"num_bits\": 8}",
       "kv_cache_scheme\" is {"},
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
