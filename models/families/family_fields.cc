#include "models/families/family_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/base/nearest.h"

namespace moec {

void FieldReader::error(std::string code, std::string cause, const JsonValue& at,
                        std::string next) {
  if (errors_.only_counts(code)) return;  // avoids the cost of finding the line
  errors_.add({Severity::error, std::move(code), std::move(cause), std::move(next),
               json_place(text_, source_, at.offset)});
}

void FieldReader::wrong_type(std::string_view name, std::string_view wanted,
                             const JsonValue& value) {
  error("family.type", fmt::format("\"{}\" must be {}, found {}", name, wanted, kind_name(value)),
        value);
}

const JsonValue* FieldReader::field(const JsonValue& object, std::string_view name, bool needed) {
  const JsonValue* value = object.find(name);
  if (value == nullptr && needed)
    error("family.missing_field", fmt::format("the field \"{}\" is missing", name), object);
  return value;
}

const JsonValue::Object* FieldReader::members(const JsonValue& object, std::string_view name,
                                              bool needed) {
  const JsonValue* value = field(object, name, needed);
  if (value == nullptr) return nullptr;
  if (value->object() == nullptr) wrong_type(name, "an object", *value);
  return value->object();
}

std::string FieldReader::text_field(const JsonValue& object, std::string_view name) {
  const JsonValue* value = field(object, name, true);
  return value == nullptr ? std::string() : text_of(name, *value);
}

std::string FieldReader::text_of(std::string_view name, const JsonValue& value) {
  if (value.string() != nullptr && !value.string()->empty()) return *value.string();
  wrong_type(name, "a non-empty string", value);
  // Returns an empty text after an error, so that later errors are also found.
  return {};
}

std::vector<std::string> FieldReader::texts_of(std::string_view name, const JsonValue& value) {
  // A descriptor may write a list of one text as a plain string.
  if (value.array() == nullptr) return {text_of(name, value)};
  std::vector<std::string> texts;
  for (const JsonValue& item : *value.array()) texts.push_back(text_of(name, item));
  if (texts.empty()) wrong_type(name, "a non-empty list", value);
  return texts;
}

void FieldReader::only_fields(const JsonValue& object, std::string_view where,
                              std::span<const std::string_view> known) {
  if (object.object() == nullptr) return;
  for (const JsonMember& member : *object.object())
    if (std::find(known.begin(), known.end(), member.key) == known.end() &&
        !errors_.only_counts("family.unknown_field"))
      error("family.unknown_field",
            fmt::format("unknown field \"{}\" in {}{}; known: {}", printable(member.key), where,
                        did_you_mean(member.key, known), fmt::join(known, ", ")),
            member.value);
}

}  // namespace moec
