#include "frontends/hf/config_storage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

namespace moec {
namespace {

constexpr std::string_view kKey = "quantization_config";

// A method's name in configs, and the keys that go with it. modules_to_not_convert tells nothing
// that the tensors' own types do not; activation_scheme is about a runtime's own arithmetic.
struct Method {
  std::string_view name;
  WeightCoding coding;
  std::vector<std::string_view> keys;
};

const std::vector<Method>& methods() {
  static const std::vector<Method> all = {
      {"fp8",
       WeightCoding::fp8_blocks,
       {"fmt", "weight_block_size", "activation_scheme", "modules_to_not_convert"}},
      {"mxfp4", WeightCoding::mxfp4, {"modules_to_not_convert"}},
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
      "Convert the checkpoint to bf16, or to a method that is known.");
  return nullptr;
}

void check_keys(ConfigReader& reader, const JsonValue& object, const Method& method) {
  for (const JsonMember& member : *object.object())
    if (!member.value.is_null() && member.key != "quant_method" &&
        std::find(method.keys.begin(), method.keys.end(), member.key) == method.keys.end())
      reader.error("hf.config.unknown_key",
                   fmt::format("the key \"{}.{}\" ({}) is not known for the method \"{}\"", kKey,
                               printable(member.key, 80), to_string(member.value, 60), method.name),
                   &member.value);
}

// [rows, columns]
Dims read_block(ConfigReader& reader, const JsonValue& object) {
  const JsonValue* value = object.find("weight_block_size");
  Dims block;
  if (value != nullptr && value->array() != nullptr)
    for (const JsonValue& size : *value->array())
      if (size.integer() != nullptr && *size.integer() > 0) block.push_back(*size.integer());
  if (block.size() == 2 && value->array()->size() == 2) return block;
  reader.error("hf.config.unsupported_value",
               fmt::format("\"{}.weight_block_size\" must be two sizes above 0", kKey),
               value == nullptr ? &object : value,
               "Weights with one factor for a whole matrix or row are not read.");
  return {};
}

void check_format(ConfigReader& reader, const JsonValue& object) {
  const JsonValue* format = object.find("fmt");
  if (format == nullptr || format->is_null()) return;
  const std::string* name = format->string();
  if (name != nullptr && (*name == "e4m3" || *name == "float8_e4m3fn")) return;
  reader.error("hf.config.unsupported_value",
               fmt::format("\"{}.fmt\" is {}; it must be \"e4m3\"", kKey, to_string(*format, 60)),
               format);
}

}  // namespace

StoredWeights read_storage(ConfigReader& reader) {
  const JsonValue* object = reader.key(kKey);
  if (object == nullptr) return {};
  if (object->object() == nullptr) {
    reader.error("hf.config.type", fmt::format("\"{}\" must be an object", kKey), object);
    return {};
  }
  const Method* method = find_method(reader, *object);
  if (method == nullptr) return {};
  check_keys(reader, *object, *method);
  StoredWeights stored{method->coding, {}};
  if (method->coding != WeightCoding::fp8_blocks) return stored;
  check_format(reader, *object);
  stored.block = read_block(reader, *object);
  return stored;
}

}  // namespace moec
