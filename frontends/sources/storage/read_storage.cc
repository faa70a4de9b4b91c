#include "frontends/sources/storage/read_storage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontends/sources/storage/storage_section.h"

namespace moec {
namespace {

constexpr std::string_view kKey = "quantization_config";
constexpr std::string_view kMlxKey = "quantization";

struct Method {
  std::string_view name;
  StoredWeights (*read)(const StorageSection& section);
  std::string_view next;  // of unsupported values
};

constexpr Method kBitsandbytes{
    "bitsandbytes", read_bitsandbytes,
    "use a bitsandbytes checkpoint of 4-bit NF4 or FP4 stored as uint8, or of LLM.int8"};
constexpr Method kMethods[] = {
    {"fp8", read_fp8, "use a checkpoint with one scale per block or matrix"},
    {"mxfp4", read_mxfp4, kMendConfig},
    {"modelopt", read_modelopt, "use a checkpoint of NVFP4 or FP8 weights"},
    {"compressed-tensors", read_compressed_tensors,
     "use a compressed-tensors checkpoint of integers, FP8 or NVFP4"},
    {"gptq", read_gptq,
     "use a GPTQ checkpoint of 2, 3, 4 or 8 bits that is not packed for one kernel"},
    {"awq", read_awq, "use an AWQ checkpoint of version gemm"},
    kBitsandbytes,
};
constexpr Method kMlx{"mlx", read_mlx, "use an MLX checkpoint with affine groups of one size"};

const Method* find_method(ConfigReader& reader, const JsonValue& object) {
  const JsonValue* value = object.find("quant_method");
  std::vector<std::string_view> known;
  for (const Method& method : kMethods) {
    if (value != nullptr && value->string() != nullptr && *value->string() == method.name)
      return &method;
    known.push_back(method.name);
  }
  // MLX states bits and groups without a method.
  if (value == nullptr && object.find("bits") != nullptr && object.find("group_size") != nullptr)
    return &kMlx;
  // Old releases of transformers state no method.
  if (value == nullptr &&
      (object.find("load_in_4bit") != nullptr || object.find("load_in_8bit") != nullptr))
    return &kBitsandbytes;
  reader.error(
      "hf.config.unknown_storage",
      fmt::format("\"{}.quant_method\" is {}; known: {}", kKey,
                  value == nullptr ? "missing" : to_string(*value, 60), fmt::join(known, ", ")),
      value == nullptr ? &object : value,
      "convert the checkpoint to bf16, or to a supported method");
  return nullptr;
}

// The texts are compared, because values differ in their places in the file.
bool same_value(const JsonValue& a, const JsonValue& b) { return to_string(a) == to_string(b); }

}  // namespace

StoredWeights read_storage(ConfigReader& reader) {
  // Multimodal configs have the object next to the text model or inside it. MLX writes the same
  // object twice.
  const JsonValue* mlx = reader.key_anywhere(kMlxKey);
  const JsonValue* object = reader.key_anywhere(kKey);
  if (object == nullptr) object = mlx;
  if (object == nullptr) return {};
  if (mlx != nullptr && !same_value(*mlx, *object)) {
    reader.error("hf.config.conflict",
                 fmt::format("\"{}\" and \"{}\" are different", kMlxKey, kKey), mlx,
                 "remove the one that does not describe the weights");
    return {};
  }
  if (object->object() == nullptr) {
    reader.error("hf.config.type", fmt::format("\"{}\" must be an object", kKey), object);
    return {};
  }
  const Method* method = find_method(reader, *object);
  if (method == nullptr) return {};
  return method->read({reader, *object, std::string(kKey), method->name, method->next});
}

std::span<const std::string_view> ignored_of(const StoredWeights& stored) {
  static constexpr std::string_view kShape[] = {"*.weight_shape"};
  static constexpr std::string_view kGroups[] = {"*.g_idx"};
  static constexpr std::string_view kActivations[] = {"*.input_scale", "*.input_global_scale",
                                                      "*.k_scale", "*.v_scale"};
  static constexpr std::string_view kStates[] = {"*.quant_state.bitsandbytes__*"};
  static constexpr std::string_view kFormat[] = {"*.weight_format"};
  switch (stored.coding) {
    case WeightCoding::int_groups:
      return kShape;
    case WeightCoding::gptq:
    case WeightCoding::gptq_v2:
      if (!stored.indexed) return kGroups;
      break;
    case WeightCoding::fp8_blocks:
    case WeightCoding::nvfp4:
      return kActivations;
    case WeightCoding::nf4:
    case WeightCoding::fp4:
      return kStates;
    case WeightCoding::int8_rows:
      return kFormat;
    case WeightCoding::plain:
    case WeightCoding::mxfp4:
    case WeightCoding::awq:
    case WeightCoding::mlx:
    case WeightCoding::gguf_blocks:
      break;
  }
  return {};
}

}  // namespace moec
