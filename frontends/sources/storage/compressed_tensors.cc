// The formats of compressed-tensors.
#include <fmt/format.h>

#include "frontends/sources/storage/storage_section.h"

namespace moec {
namespace {

bool is_empty(const JsonValue& value) {
  return value.object() != nullptr && value.object()->empty();
}

// Returns the object "weights" of the only group; null after a finding. Integers with quantized
// activations are refused.
const JsonValue* read_group(const StorageSection& section, bool floats) {
  const JsonValue* groups = section.find("config_groups");
  const JsonValue* weights = nullptr;
  bool good = groups != nullptr && groups->object() != nullptr && groups->object()->size() == 1;
  if (good) {
    const JsonValue& group = groups->object()->front().value;
    weights = group.find("weights");
    for (const char* key : {"input_activations", "output_activations"})
      good = good && (floats || group.find(key) == nullptr || group.find(key)->is_null());
    good = good && weights != nullptr && weights->object() != nullptr;
  }
  if (good) return weights;
  section.reader().error(
      "hf.config.unsupported_value",
      fmt::format("\"{}.config_groups\" must be one group with weights{}", section.path(),
                  floats ? "" : " only"),
      groups == nullptr ? &section.object() : groups,
      "use a checkpoint with one weight format and without quantized activations");
  return nullptr;
}

// The checks that the formats share. Absent optional members have these values by default.
void check_weights(const StorageSection& weights, const char* type) {
  static constexpr std::string_view kKnown[] = {
      "num_bits",    "type",       "strategy",        "symmetric", "dynamic",
      "actorder",    "group_size", "block_structure", "observer",  "observer_kwargs",
      "scale_dtype", "zp_dtype"};
  weights.check_keys(kKnown);
  weights.one_of("type", {std::string(type)});
  weights.one_of("dynamic", {false}, true);
}

StoredWeights read_packed(const StorageSection& weights) {
  const JsonValue::Data group = std::string("group"), channel = std::string("channel");
  const bool per_row = weights.one_of("strategy", {group, channel}) == channel;
  const int64_t size = per_row ? 0 : weights.group_size();
  const bool symmetric = weights.one_of("symmetric", {true, false}, true) == JsonValue::Data(true);
  StoredWeights stored = grouped_integers(WeightCoding::int_groups, size,
                                          weights.integer("num_bits", {4, 8}), !symmetric);
  // Only the order "group" keeps the groups of the original columns, in an index. "weight" and
  // "static" leave groups as consecutive columns.
  const JsonValue::Data kGroupOrder = std::string("group");
  if (weights.find("actorder") != nullptr)
    stored.indexed = weights.one_of("actorder", {kGroupOrder, std::string("weight"),
                                                 std::string("static")}) == kGroupOrder;
  return stored;
}

StoredWeights read_fp8_format(const StorageSection& weights) {
  weights.integer("num_bits", {8});
  weights.one_of("symmetric", {true}, true);
  const JsonValue::Data tensor = std::string("tensor"), channel = std::string("channel"),
                        block = std::string("block");
  const JsonValue::Data strategy = weights.one_of("strategy", {tensor, channel, block});
  if (strategy == tensor) return {WeightCoding::fp8_blocks, {0, 0}};
  if (strategy == channel) return {WeightCoding::fp8_blocks, {1, 0}};
  const JsonValue* sizes = weights.find("block_structure");
  if (sizes != nullptr && sizes->array() != nullptr && sizes->array()->size() == 2) {
    const int64_t* rows = sizes->array()->front().integer();
    const int64_t* columns = sizes->array()->back().integer();
    if (rows && columns && *rows > 0 && *columns > 0)
      return {WeightCoding::fp8_blocks, {*rows, *columns}};
  }
  weights.refuse("block_structure", "two sizes above 0");
  return {WeightCoding::fp8_blocks, {0, 0}};
}

StoredWeights read_nvfp4_format(const StorageSection& weights) {
  weights.integer("num_bits", {4});
  weights.one_of("symmetric", {true}, true);
  weights.one_of("strategy", {std::string("tensor_group"), std::string("group")});
  weights.integer("group_size", {16});
  return {WeightCoding::nvfp4, {}};
}

}  // namespace

// Not read: ignore is redundant with the stored tensors; a cache scheme is accepted for floats
// only.
StoredWeights read_compressed_tensors(const StorageSection& section) {
  static constexpr std::string_view kKnown[] = {"quant_method",
                                                "format",
                                                "config_groups",
                                                "ignore",
                                                "quantization_status",
                                                "version",
                                                "global_compression_ratio",
                                                "sparsity_config",
                                                "transform_config",
                                                "kv_cache_scheme"};
  section.check_keys(kKnown);
  const JsonValue::Data packed = std::string("pack-quantized"),
                        floats = std::string("float-quantized"),
                        nvfp4 = std::string("nvfp4-pack-quantized");
  const JsonValue::Data format = section.one_of("format", {packed, floats, nvfp4});
  for (const char* key : {"sparsity_config", "transform_config", "kv_cache_scheme"})
    if (const JsonValue* value = section.find(key);
        value != nullptr && !is_empty(*value) &&
        (format == packed || std::string_view(key) != "kv_cache_scheme"))
      section.refuse(key, "empty");
  const JsonValue* group = read_group(section, format != packed);
  if (group == nullptr) return {};
  const StorageSection weights =
      section.inside(*group, fmt::format("{}.config_groups.weights", section.path()));
  check_weights(weights, format == packed ? "int" : "float");
  if (format == packed) return read_packed(weights);
  return format == floats ? read_fp8_format(weights) : read_nvfp4_format(weights);
}

}  // namespace moec
