// Reads the fields that descriptors share with one another and with families/common.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/families/family.h"
#include "models/families/family_fields.h"

namespace moec {

// "must" and "harmless".
void read_key_rules(FieldReader& reader, const JsonValue& fields, KeyRules& rules);
// "ignored_tensors". Finding family.template where a pattern has a placeholder that is not known
// there.
void read_ignored_tensors(FieldReader& reader, const JsonValue& fields,
                          std::map<std::string, std::string, std::less<>>& ignored);
// A finding family.format where "format" is another one.
void check_format(FieldReader& reader, const JsonValue& root, std::string_view wanted);

// Add what families/common.json has.
void add_common_keys(KeyRules& rules);
void add_common_tensors(std::map<std::string, std::string, std::less<>>& ignored);

}  // namespace moec
