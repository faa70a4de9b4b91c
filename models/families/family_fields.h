// Strict access to the fields of a family descriptor.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/json.h"

namespace moec {

// Collects the findings of one descriptor, each with its place in the text.
class FieldReader {
 public:
  FieldReader(std::string_view text, const std::string& file)
      : text_(text), source_{.file = file} {}

  void error(std::string code, std::string cause, const JsonValue& at, std::string next = {});
  void wrong_type(std::string_view name, std::string_view wanted, const JsonValue& value);

  // An object's members, or null with a finding. A missing field is a finding when needed.
  const JsonValue::Object* members(const JsonValue& object, std::string_view name, bool needed);
  std::string text_field(const JsonValue& object, std::string_view name);
  std::string text_of(std::string_view name, const JsonValue& value);
  // One string or a list of strings.
  std::vector<std::string> texts_of(std::string_view name, const JsonValue& value);
  // A finding for each member that is not known; `where` names the object.
  void only_fields(const JsonValue& object, std::string_view where,
                   std::span<const std::string_view> known);

  bool failed() const { return !errors_.empty(); }
  Diagnostics take_errors() { return std::move(errors_); }

 private:
  const JsonValue* field(const JsonValue& object, std::string_view name, bool needed);

  std::string_view text_;
  JsonSource source_;
  Diagnostics errors_;
};

}  // namespace moec
