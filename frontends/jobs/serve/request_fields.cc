#include "frontends/jobs/serve/request_fields.h"

#include <string>

namespace moec {

bool is_off(const JsonMember& member) {
  const JsonValue& value = member.value;
  const bool is_choice = member.key == "tool_choice" || member.key == "function_call";
  if (const bool* flag = value.boolean()) return !*flag;
  if (const std::string* text = value.string())
    return text->empty() || (is_choice && *text == "none");
  if (const auto* list = value.array()) return list->empty();
  if (const auto* object = value.object()) return object->empty();
  return value.is_null();
}

bool is_text(const JsonValue* value, std::string_view text) {
  return value && value->string() && *value->string() == text;
}

bool asks_for_text(const JsonMember& member) {
  if (member.key == "response_format") return is_text(member.value.find("type"));
  const auto* list = member.value.array();
  return member.key == "modalities" && list && list->size() == 1 && is_text(&list->front());
}

bool is_usual(const JsonMember& member) {
  return member.key == "verbosity" && member.value.string() && *member.value.string() == "medium";
}

}  // namespace moec
