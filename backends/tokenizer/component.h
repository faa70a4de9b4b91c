// Helpers that read the components of a tokenizer.json: objects with a type, or null.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/base/json_fields.h"

namespace moec {

// Returns the error tokenizer.component for a component type that is not implemented.
inline tl::unexpected<Diagnostics> refuse_component(const JsonFields& fields,
                                                    const std::string& kind,
                                                    const std::string& type) {
  return fail("tokenizer.component",
              fmt::format("unsupported {} \"{}\"", kind, printable(type, 60)),
              "pass token ids with --prompt-tokens", {.file = fields.report().file()});
}

// Returns true if the field is present and not null.
inline bool is_given(JsonFields& fields, std::string_view name) {
  return fields.has(name) && !(*fields.value(name))->is_null();
}

// Returns the boolean field, or `absent` if it is missing or null.
inline Result<bool> flag(JsonFields& fields, std::string_view name, bool absent) {
  if (is_given(fields, name)) MOEC_TRY(fields.boolean(name, absent));
  return absent;
}

// Returns the string field, or `absent` if it is missing or null.
inline Result<std::string> text_or(JsonFields& fields, std::string_view name, std::string absent) {
  if (is_given(fields, name)) MOEC_TRY(fields.text(name, absent));
  return absent;
}

// Reads a list of components with `read`; null entries are skipped.
template <class Component>
Result<std::vector<Component>> read_components(JsonFields& fields, std::string_view name,
                                               Result<Component> (*read)(const JsonReport&,
                                                                         const JsonValue&)) {
  MOEC_ASSIGN(const JsonValue* items, fields.value(name));
  if (!items->array()) return fields.bad(name, "must be a list");
  std::vector<Component> components;
  for (const JsonValue& item : *items->array()) {
    MOEC_ASSIGN(Component component, read(fields.report(), item));
    if (component) components.push_back(std::move(component));
  }
  return components;
}

}  // namespace moec
