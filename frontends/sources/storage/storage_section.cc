#include "frontends/sources/storage/storage_section.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace moec {

const JsonValue* StorageSection::find(std::string_view key) const {
  const JsonValue* value = object_.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void StorageSection::check_keys(std::span<const std::string_view> known) const {
  for (const JsonMember& member : *object_.object())
    if (!member.value.is_null() && std::find(known.begin(), known.end(), member.key) == known.end())
      reader_.error("hf.config.unknown_key",
                    fmt::format("unknown key \"{}.{}\" ({}) for the method \"{}\"", path_,
                                printable(member.key, 80), to_string(member.value, 60), method_),
                    &member.value);
}

void StorageSection::refuse(std::string_view key, std::string_view wanted) const {
  const JsonValue* value = find(key);
  reader_.error("hf.config.unsupported_value",
                fmt::format("\"{}.{}\" is {}, but must be {}", path_, key,
                            value == nullptr ? "missing" : to_string(*value, 60), wanted),
                value == nullptr ? &object_ : value, std::string(next_));
}

JsonValue::Data StorageSection::one_of(std::string_view key,
                                       std::initializer_list<JsonValue::Data> accepted,
                                       bool optional) const {
  const JsonValue* value = find(key);
  if (value == nullptr && optional) return *accepted.begin();
  std::vector<std::string> texts;
  for (const JsonValue::Data& one : accepted) {
    // The data is compared without the offset, which differs by place.
    if (value != nullptr && value->data == one) return one;
    texts.push_back(to_string(JsonValue{one}));
  }
  refuse(key, fmt::format("{}", fmt::join(texts, " or ")));
  return *accepted.begin();
}

int64_t StorageSection::integer(std::string_view key,
                                std::initializer_list<int64_t> accepted) const {
  const JsonValue* value = find(key);
  if (value != nullptr && value->integer() != nullptr &&
      std::find(accepted.begin(), accepted.end(), *value->integer()) != accepted.end())
    return *value->integer();
  refuse(key, fmt::format("{}", fmt::join(accepted, " or ")));
  return *accepted.begin();
}

int64_t StorageSection::group_size(std::string_view key) const {
  const JsonValue* size = find(key);
  const int64_t* value = size == nullptr ? nullptr : size->integer();
  if (value != nullptr && (*value > 0 || *value == -1)) return *value == -1 ? 0 : *value;
  refuse(key, "a size above 0, or -1 for whole rows");
  return 0;
}

StoredWeights grouped_integers(WeightCoding coding, int64_t group, int64_t bits, bool zeros) {
  StoredWeights stored{coding, {1, group}};
  stored.codes = {bits, group, zeros};
  return stored;
}

}  // namespace moec
