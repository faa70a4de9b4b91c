#include "frontends/sources/hf/config_storage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "frontends/sources/hf/role_choices.h"

namespace moec {
namespace {

constexpr std::string_view kKey = "quantization_config";

// A quantization method of configs, with the keys that it accepts. Some keys are accepted but not
// read: modules_to_not_convert and ignore are redundant with the stored tensors, activation_scheme
// concerns the runtime's arithmetic, and scale_fmt describes how scales were rounded before they
// were stored.
struct Method {
  std::string_view name;
  WeightCoding coding;
  std::vector<std::string_view> keys;
};

const std::vector<Method>& methods() {
  static const std::vector<Method> all = {
      {"fp8",
       WeightCoding::fp8_blocks,
       {"quant_method", "fmt", "weight_block_size", "activation_scheme", "scale_fmt",
        "modules_to_not_convert"}},
      {"mxfp4", WeightCoding::mxfp4, {"quant_method", "modules_to_not_convert"}},
      {"compressed-tensors",
       WeightCoding::int4_groups,
       {"quant_method", "format", "config_groups", "ignore", "quantization_status",
        "global_compression_ratio", "sparsity_config", "transform_config", "kv_cache_scheme",
        "version"}},
  };
  return all;
}

const Method* find_method(ConfigReader& reader, const JsonValue& object) {
  const JsonValue* value = object.find("quant_method");
  std::vector<std::string_view> known;
  for (const Method& method : methods()) {
    if (value != nullptr && value->string() != nullptr && *value->string() == method.name)
      return &method;
    known.push_back(method.name);
  }
  reader.error(
      "hf.config.unknown_storage",
      fmt::format("\"{}.quant_method\" is {}; known: {}", kKey,
                  value == nullptr ? "missing" : to_string(*value, 60), fmt::join(known, ", ")),
      value == nullptr ? &object : value,
      "convert the checkpoint to bf16, or to a supported method");
  return nullptr;
}

// Unknown keys are refused, because they could change how the stored values are decoded.
void check_keys(ConfigReader& reader, const JsonValue& object, std::string_view path,
                std::span<const std::string_view> known, std::string_view method) {
  for (const JsonMember& member : *object.object())
    if (!member.value.is_null() && std::find(known.begin(), known.end(), member.key) == known.end())
      reader.error("hf.config.unknown_key",
                   fmt::format("unknown key \"{}.{}\" ({}) for the method \"{}\"", path,
                               printable(member.key, 80), to_string(member.value, 60), method),
                   &member.value);
}

// Reads the block size [rows, columns].
Dims read_block(ConfigReader& reader, const JsonValue& object) {
  const JsonValue* value = object.find("weight_block_size");
  Dims block;
  if (value != nullptr && value->array() != nullptr)
    for (const JsonValue& size : *value->array())
      if (size.integer() != nullptr && *size.integer() > 0) block.push_back(*size.integer());
  // The list may also have entries that are not sizes, so both lengths are compared.
  if (block.size() == 2 && value->array()->size() == 2) return block;
  reader.error("hf.config.unsupported_value",
               fmt::format("\"{}.weight_block_size\" must be two sizes above 0", kKey),
               value == nullptr ? &object : value,
               "use a checkpoint with one scale per block, not per matrix or row");
  return {};
}

void check_format(ConfigReader& reader, const JsonValue& object) {
  const JsonValue* format = object.find("fmt");
  if (format == nullptr || format->is_null()) return;
  const std::string* name = format->string();
  // Both names mean the same format.
  if (name != nullptr && (*name == "e4m3" || *name == "float8_e4m3fn")) return;
  reader.error("hf.config.unsupported_value",
               fmt::format("\"{}.fmt\" is {}, but must be \"e4m3\"", kKey, to_string(*format, 60)),
               format);
}

// ---- compressed-tensors ------------------------------------------------------------------------

bool is_empty(const JsonValue& value) {
  return value.is_null() || (value.object() != nullptr && value.object()->empty());
}

// A member with a required value. If `optional`, the member may be absent or null.
struct Wanted {
  std::string_view key;
  JsonValue::Data value;
  bool optional = false;
};

void check_wanted(ConfigReader& reader, const JsonValue& object, std::string_view path,
                  const Wanted& wanted) {
  const JsonValue* value = object.find(wanted.key);
  const bool absent = value == nullptr || value->is_null();
  // The data is compared without the offset, which differs by place.
  if (absent ? wanted.optional : value->data == wanted.value) return;
  reader.error(
      "hf.config.unsupported_value",
      fmt::format("\"{}.{}\" is {}, but must be {}", path, wanted.key,
                  absent ? "missing" : to_string(*value, 60), to_string(JsonValue{wanted.value})),
      value == nullptr ? &object : value,
      "use a compressed-tensors checkpoint with symmetric 4-bit groups");
}

// Returns the object "weights" of the only group. Refuses quantized activations, because they would
// change the model's arithmetic.
const JsonValue* read_group(ConfigReader& reader, const JsonValue& object) {
  const JsonValue* groups = object.find("config_groups");
  const JsonValue* weights = nullptr;
  bool good = groups != nullptr && groups->object() != nullptr && groups->object()->size() == 1;
  if (good) {
    const JsonValue& group = groups->object()->front().value;
    weights = group.find("weights");
    for (const char* key : {"input_activations", "output_activations"})
      good = good && (group.find(key) == nullptr || group.find(key)->is_null());
    good = good && weights != nullptr && weights->object() != nullptr;
  }
  if (good) return weights;
  reader.error("hf.config.unsupported_value",
               fmt::format("\"{}.config_groups\" must be one group with weights only", kKey),
               groups == nullptr ? &object : groups,
               "use a checkpoint with one weight format and without quantized activations");
  return nullptr;
}

// Reads the group size as a block [1, columns].
Dims read_group_size(ConfigReader& reader, const JsonValue& weights, const std::string& path) {
  const JsonValue* size = weights.find("group_size");
  if (size != nullptr && size->integer() != nullptr && *size->integer() > 0)
    return {1, *size->integer()};
  reader.error("hf.config.unsupported_value",
               fmt::format("\"{}.group_size\" must be a size above 0", path),
               size == nullptr ? &weights : size);
  return {};
}

Dims read_int4_groups(ConfigReader& reader, const JsonValue& object) {
  check_wanted(reader, object, kKey, {"format", std::string("pack-quantized")});
  for (const char* key : {"sparsity_config", "transform_config", "kv_cache_scheme"})
    if (const JsonValue* value = object.find(key); value != nullptr && !is_empty(*value))
      reader.error("hf.config.unsupported_value", fmt::format("\"{}.{}\" must be empty", kKey, key),
                   value);
  const JsonValue* weights = read_group(reader, object);
  if (weights == nullptr) return {};
  const std::string path = fmt::format("{}.config_groups.weights", kKey);
  // Absent optional members have these values by default.
  for (const Wanted& wanted : {Wanted{"num_bits", int64_t{4}}, Wanted{"type", std::string("int")},
                               Wanted{"strategy", std::string("group")},
                               Wanted{"symmetric", true, true}, Wanted{"dynamic", false, true}})
    check_wanted(reader, *weights, path, wanted);
  static constexpr std::string_view kKnown[] = {
      "num_bits",    "type",       "strategy",        "symmetric", "dynamic",
      "actorder",    "group_size", "block_structure", "observer",  "observer_kwargs",
      "scale_dtype", "zp_dtype"};
  check_keys(reader, *weights, path, kKnown, "compressed-tensors");
  // With an activation order, columns are stored in permuted order, which is not supported.
  if (const JsonValue* order = weights->find("actorder"); order != nullptr && !order->is_null())
    reader.error(
        "hf.config.unsupported_value",
        fmt::format("\"{}.actorder\" is {}, but must be null", path, to_string(*order, 60)), order);
  return read_group_size(reader, *weights, path);
}

// Numbers that replace a placeholder.
struct Numbered {
  std::string_view placeholder;
  std::vector<int64_t> numbers;
};

std::vector<int64_t> counted(int64_t first, int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(std::max<int64_t>(0, count)));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

std::vector<int64_t> dense_layers(const ModelConfig& model) {
  std::vector<int64_t> layers;
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (!model.layers[i].moe) layers.push_back(static_cast<int64_t>(i));
  return layers;
}

// Expands patterns of the descriptor: a pattern with the placeholder becomes one copy per number;
// others are unchanged.
std::vector<std::string> spell_out(const std::vector<std::string>& patterns,
                                   const Numbered& numbered) {
  std::vector<std::string> all;
  for (const std::string& pattern : patterns) {
    const size_t at = pattern.find(numbered.placeholder);
    if (at == std::string::npos) {
      all.push_back(pattern);
      continue;
    }
    for (const int64_t number : numbered.numbers)
      all.push_back(
          std::string(pattern).replace(at, numbered.placeholder.size(), std::to_string(number)));
  }
  return all;
}

// Returns the patterns of tensors that the model does not use.
std::vector<std::string> ignored_patterns(ConfigReader& reader, const ModelConfig& model) {
  const Family& family = reader.family();
  const Numbered placeholders[] = {
      {kMtpLayer, counted(std::ssize(model.layers), reader.integer("mtp_layers"))},
      {kFurtherExpert, counted(model.moe.experts, reader.integer("further_experts"))},
      {kDenseLayer, dense_layers(model)}};
  std::vector<std::string> ignored;
  for (const auto& [pattern, why] : family.ignored_tensors) {
    // A pattern can have several placeholders, so the expansions are nested.
    std::vector<std::string> spelt = {pattern};
    for (const Numbered& numbered : placeholders) spelt = spell_out(spelt, numbered);
    ignored.insert(ignored.end(), spelt.begin(), spelt.end());
  }
  // Each packed matrix has an additional tensor with the matrix's shape, which the config already
  // implies.
  if (model.stored.coding == WeightCoding::int4_groups) ignored.emplace_back("*.weight_shape");
  // Some files contain a copy of the tied matrix, which would be reported as unused.
  if (const auto head = family.tensors.find("lm_head");
      model.head.tied && head != family.tensors.end())
    ignored.insert(ignored.end(), head->second.begin(), head->second.end());
  return ignored;
}

}  // namespace

StoredWeights read_storage(ConfigReader& reader) {
  // Multimodal configs have the object next to the text model or inside it.
  const JsonValue* object = reader.key_anywhere(kKey);
  if (object == nullptr) return {};
  if (object->object() == nullptr) {
    reader.error("hf.config.type", fmt::format("\"{}\" must be an object", kKey), object);
    return {};
  }
  const Method* method = find_method(reader, *object);
  if (method == nullptr) return {};
  check_keys(reader, *object, kKey, method->keys, method->name);
  StoredWeights stored{method->coding, {}};
  switch (method->coding) {
    case WeightCoding::int4_groups:
      stored.block = read_int4_groups(reader, *object);
      break;
    case WeightCoding::fp8_blocks:
      check_format(reader, *object);
      stored.block = read_block(reader, *object);
      break;
    case WeightCoding::plain:
    case WeightCoding::mxfp4:  // its blocks have a fixed size
    case WeightCoding::gguf_blocks:
      break;
  }
  return stored;
}

TensorNames read_names(ConfigReader& reader, const ModelConfig& model) {
  const Family& family = reader.family();
  TensorNames names;
  for (const auto& [role, templates] : family.tensors) names.by_role[role] = templates.front();
  // Assume the usual way to store matrices; resolve_names() later determines the actual one from
  // the files.
  for (const RoleChoice& choice : role_choices())
    if (names.has(choice.usual.front()))
      for (const std::string_view role : choice.other) names.by_role.erase(std::string(role));
  names.ignored = ignored_patterns(reader, model);
  return names;
}

}  // namespace moec
