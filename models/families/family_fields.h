// Strict access to the fields of a family descriptor.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/bounded_diagnostics.h"
#include "ir/base/json.h"

namespace moec {

// Reads fields and collects the findings of one descriptor, each with its position in the text.
class FieldReader {
 public:
  FieldReader(std::string_view text, const std::string& file)
      : text_(text), source_{.file = file} {}

  void error(std::string code, std::string cause, const JsonValue& at, std::string next = {});
  void wrong_type(std::string_view name, std::string_view wanted, const JsonValue& value);

  // Returns the field's value, or null if the field is missing. Adds a finding if a `needed` field
  // is missing.
  const JsonValue* field(const JsonValue& object, std::string_view name, bool needed);
  // Returns the members of the object in field `name`, or null. Adds a finding if the field is not
  // an object, or if a `needed` field is missing.
  const JsonValue::Object* members(const JsonValue& object, std::string_view name, bool needed);
  std::string text_field(const JsonValue& object, std::string_view name);
  std::string text_of(std::string_view name, const JsonValue& value);
  // Accepts one string or a list of strings.
  std::vector<std::string> texts_of(std::string_view name, const JsonValue& value);
  // Adds a finding for each member that is not in `known`; `where` names the object.
  void only_fields(const JsonValue& object, std::string_view where,
                   std::span<const std::string_view> known);

  bool failed() const { return errors_.count() > 0; }
  Diagnostics take_errors() { return errors_.take(); }

 private:
  std::string_view text_;
  JsonSource source_;
  BoundedDiagnostics errors_;
};

}  // namespace moec
