// The methods whose matrices are small floats: fp8, mxfp4, modelopt.
#include <fmt/format.h>

#include "frontends/sources/storage/storage_section.h"

namespace moec {
namespace {

// Reads the block size [rows, columns]; absent: one factor for the matrix.
Dims read_block(const StorageSection& section) {
  const JsonValue* value = section.find("weight_block_size");
  if (value == nullptr) return {0, 0};
  Dims block;
  if (value->array() != nullptr)
    for (const JsonValue& size : *value->array())
      if (size.integer() != nullptr && *size.integer() > 0) block.push_back(*size.integer());
  // The list may also have entries that are not sizes, so both lengths are compared.
  if (block.size() == 2 && value->array()->size() == 2) return block;
  section.refuse("weight_block_size", "two sizes above 0");
  return {};
}

}  // namespace

// Some keys are accepted but not read: modules_to_not_convert and ignored_layers are redundant with
// the stored tensors, activation_scheme concerns the runtime's arithmetic, and scale_fmt describes
// how scales were rounded before they were stored.
StoredWeights read_fp8(const StorageSection& section) {
  static constexpr std::string_view kKnown[] = {
      "quant_method",          "fmt",       "weight_block_size",
      "activation_scheme",     "scale_fmt", "ignored_layers",
      "modules_to_not_convert"};
  section.check_keys(kKnown);
  // Both names mean the same format.
  section.one_of("fmt", {std::string("e4m3"), std::string("float8_e4m3fn")}, true);
  return {WeightCoding::fp8_blocks, read_block(section)};
}

StoredWeights read_mxfp4(const StorageSection& section) {
  static constexpr std::string_view kKnown[] = {"quant_method", "modules_to_not_convert"};
  section.check_keys(kKnown);
  return {WeightCoding::mxfp4, {}};  // its blocks have a fixed size
}

// Not read: the groups repeat the algorithm and describe activations; ignore and exclude_modules
// are redundant with the stored tensors; a cache scheme concerns the runtime's caches.
StoredWeights read_modelopt(const StorageSection& section) {
  static constexpr std::string_view kKnown[] = {
      "quant_method", "quant_algo",          "config_groups",   "ignore",  "kv_cache_scheme",
      "group_size",   "kv_cache_quant_algo", "exclude_modules", "producer"};
  section.check_keys(kKnown);
  if (section.find("group_size") != nullptr) section.integer("group_size", {16});
  const JsonValue::Data nvfp4 = std::string("NVFP4"), fp8 = std::string("FP8");
  if (section.one_of("quant_algo", {nvfp4, fp8}) == fp8) return {WeightCoding::fp8_blocks, {0, 0}};
  return {WeightCoding::nvfp4, {}};
}

}  // namespace moec
