// The methods whose matrices are integers: gptq, awq and that of MLX.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/sources/storage/storage_section.h"

namespace moec {
namespace {

// Rules of GPTQModel for the modules with a name. A rule that starts with "-" excludes the modules,
// so that they are stored plain; other rules change bits or groups.
void check_dynamic(const StorageSection& section) {
  const JsonValue* rules = section.find("dynamic");
  if (rules == nullptr || rules->boolean() != nullptr) return;
  const JsonValue::Object* object = rules->object();
  const bool excludes =
      object != nullptr && std::all_of(object->begin(), object->end(), [](const JsonMember& rule) {
        return rule.key.starts_with('-');
      });
  if (!excludes) section.refuse("dynamic", "absent or rules that start with \"-\"");
}

// True for gptq_v2. AutoGPTQ states the format as checkpoint_format, GPTQModel also as format.
bool is_second_format(const StorageSection& section) {
  const JsonValue::Data v1 = std::string("gptq"), v2 = std::string("gptq_v2");
  const JsonValue::Data stated = section.one_of("checkpoint_format", {v1, v2}, true);
  if (section.find("format") == nullptr) return stated == v2;
  if (section.find("checkpoint_format") != nullptr) return section.one_of("format", {stated}) == v2;
  return section.one_of("format", {v1, v2}) == v2;
}

}  // namespace

// Keys about how the codes were found are accepted but not read. desc_act: columns have the groups
// that g_idx states; without it, groups are consecutive columns.
StoredWeights read_gptq(const StorageSection& section) {
  static constexpr std::string_view kKnown[] = {"quant_method",
                                                "bits",
                                                "group_size",
                                                "desc_act",
                                                "sym",
                                                "checkpoint_format",
                                                "format",
                                                "pack_dtype",
                                                "dynamic",
                                                "lm_head",
                                                "static_groups",
                                                "true_sequential",
                                                "damp_percent",
                                                "damp_auto_increment",
                                                "mse",
                                                "act_group_aware",
                                                "hyb_act",
                                                "fail_safe",
                                                "meta",
                                                "quantizer",
                                                "dataset",
                                                "tokenizer",
                                                "batch_size",
                                                "block_name_to_quantize",
                                                "modules_in_block_to_quantize",
                                                "model_name_or_path",
                                                "model_file_base_name",
                                                "model_seqlen",
                                                "max_input_length",
                                                "module_name_preceding_first_block",
                                                "pad_token_id",
                                                "cache_block_outputs",
                                                "use_cuda_fp16",
                                                "use_exllama",
                                                "exllama_config",
                                                "disable_exllama",
                                                "backend",
                                                "is_marlin_format",
                                                "offload_to_disk"};
  section.check_keys(kKnown);
  check_dynamic(section);
  section.one_of("is_marlin_format", {false}, true);
  section.one_of("pack_dtype", {std::string("int32")}, true);
  const bool second = is_second_format(section);
  StoredWeights stored =
      grouped_integers(second ? WeightCoding::gptq_v2 : WeightCoding::gptq, section.group_size(),
                       section.integer("bits", {2, 3, 4, 8}), true);
  stored.indexed = section.one_of("desc_act", {false, true}) == JsonValue::Data(true);
  return stored;
}

StoredWeights read_awq(const StorageSection& section) {
  static constexpr std::string_view kKnown[] = {"quant_method",
                                                "bits",
                                                "group_size",
                                                "zero_point",
                                                "version",
                                                "desc_act",
                                                "backend",
                                                "do_fuse",
                                                "fuse_max_seq_len",
                                                "modules_to_fuse",
                                                "modules_to_not_convert",
                                                "exllama_config"};
  section.check_keys(kKnown);
  section.one_of("version", {std::string("gemm"), std::string("GEMM")}, true);
  section.one_of("desc_act", {false}, true);
  section.one_of("zero_point", {true}, true);
  return grouped_integers(WeightCoding::awq, section.group_size(), section.integer("bits", {4}),
                          true);
}

// Members that are objects or false concern the module with their name. A module can have other
// bits, which follow from the sizes of its tensors, but not other groups.
StoredWeights read_mlx(const StorageSection& section) {
  section.one_of("mode", {std::string("affine")}, true);
  StoredWeights stored =
      grouped_integers(WeightCoding::mlx, section.integer("group_size", {32, 64, 128}),
                       section.integer("bits", {2, 3, 4, 5, 6, 8}), true);
  for (const JsonMember& member : *section.object().object()) {
    const auto& [key, value] = member;
    if (key == "group_size" || key == "bits" || key == "mode" || value.is_null()) continue;
    if (value.object() != nullptr) {
      const StorageSection module =
          section.inside(value, fmt::format("{}.{}", section.path(), printable(key, 80)));
      module.integer("bits", {2, 3, 4, 5, 6, 8});
      module.integer("group_size", {stored.codes.elements});
    } else if (!(value.data == JsonValue::Data(false))) {
      section.reader().error("hf.config.unknown_key",
                             fmt::format("unknown key \"{}.{}\" ({}) for the weights of MLX",
                                         section.path(), printable(key, 80), to_string(value, 60)),
                             &value);
    }
  }
  return stored;
}

}  // namespace moec
