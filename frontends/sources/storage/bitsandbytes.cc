// The method of bitsandbytes: 4-bit tables (NF4, FP4) and LLM.int8.
#include <fmt/format.h>

#include "frontends/sources/storage/storage_section.h"

namespace moec {
namespace {

// The default of bitsandbytes; the tensors state their own (frontends/sources/hf/quant_states.h).
constexpr int64_t kDefaultBlock = 64;

bool is_true(const StorageSection& section, std::string_view key) {
  return section.one_of(key, {false, true}, true) == JsonValue::Data(true);
}

// Configs spell a flag with and without an underscore; both must agree.
bool loads_in(const StorageSection& section, std::string_view key) {
  const std::string inner = fmt::format("_{}", key);
  if (section.find(inner) == nullptr) return is_true(section, key);
  const JsonValue::Data stated = section.one_of(inner, {false, true});
  if (section.find(key) != nullptr) section.one_of(key, {stated});
  return stated == JsonValue::Data(true);
}

void check_number(const StorageSection& section, std::string_view key) {
  const JsonValue* value = section.find(key);
  if (value != nullptr && !value->number()) section.refuse(key, "a number");
}

StoredWeights read_tables(const StorageSection& section) {
  const JsonValue::Data fp4 = std::string("fp4"), nf4 = std::string("nf4");
  const bool is_nf4 = section.one_of("bnb_4bit_quant_type", {fp4, nf4}, true) == nf4;
  // Bytes stored as floats, for FSDP, have other shapes.
  section.one_of("bnb_4bit_quant_storage", {std::string("uint8")}, true);
  StoredWeights stored{is_nf4 ? WeightCoding::nf4 : WeightCoding::fp4, {1, kDefaultBlock}};
  stored.nested = is_true(section, "bnb_4bit_use_double_quant");
  return stored;
}

}  // namespace

// Some keys are accepted but not used. llm_int8_skip_modules is redundant with the stored tensors.
// bnb_4bit_compute_dtype and llm_int8_threshold concern the runtime's arithmetic: the latter is the
// size from which activations are not quantized, and moec quantizes none.
// llm_int8_enable_fp32_cpu_offload places modules on devices.
StoredWeights read_bitsandbytes(const StorageSection& section) {
  static constexpr std::string_view kKnown[] = {"quant_method",
                                                "load_in_4bit",
                                                "load_in_8bit",
                                                "_load_in_4bit",
                                                "_load_in_8bit",
                                                "bnb_4bit_compute_dtype",
                                                "bnb_4bit_quant_storage",
                                                "bnb_4bit_quant_type",
                                                "bnb_4bit_use_double_quant",
                                                "llm_int8_enable_fp32_cpu_offload",
                                                "llm_int8_has_fp16_weight",
                                                "llm_int8_skip_modules",
                                                "llm_int8_threshold"};
  section.check_keys(kKnown);
  check_number(section, "llm_int8_threshold");
  is_true(section, "llm_int8_enable_fp32_cpu_offload");
  const bool in_4 = loads_in(section, "load_in_4bit"), in_8 = loads_in(section, "load_in_8bit");
  if (in_4 == in_8) section.refuse("load_in_4bit", in_4 ? "false with load_in_8bit" : "true");
  if (!in_8) return read_tables(section);
  // Weights of 16 bits have no factors, although the config states 8 bits.
  section.one_of("llm_int8_has_fp16_weight", {false}, true);
  return {WeightCoding::int8_rows, {1, 0}};
}

}  // namespace moec
