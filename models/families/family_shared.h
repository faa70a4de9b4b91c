// Reads the fields that all descriptors and families/common.json share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/families/family.h"
#include "models/families/family_fields.h"

namespace moec {

// "must" and "harmless".
void read_key_rules(FieldReader& reader, const JsonValue& fields, KeyRules& rules);
// "ignored_tensors". Finding family.template: a pattern has an unknown placeholder.
void read_ignored_tensors(FieldReader& reader, const JsonValue& fields,
                          std::map<std::string, std::string, std::less<>>& ignored);
// Finding family.format: "format" is not `wanted`.
void check_format(FieldReader& reader, const JsonValue& root, std::string_view wanted);

// Add the entries of families/common.json.
void add_common_keys(KeyRules& rules);
void add_common_tensors(std::map<std::string, std::string, std::less<>>& ignored);

}  // namespace moec
