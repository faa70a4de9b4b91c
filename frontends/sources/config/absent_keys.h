// Lists keys that a config lacks, for findings that the defaults of these keys may explain.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "frontends/sources/config/config_readings.h"
#include "models/families/family.h"

namespace moec {

// The concepts read from a config, and the family that describes them.
struct FamilyReadings {
  const Family& family;
  std::span<const ConceptReading> concepts;
};

// Returns a clause such as `"num_key_value_heads" is missing and defaults to 8; ` for each absent
// key that determines the shape or the number of the role's tensors. Returns at most four clauses;
// empty if the config has all of the keys. The text is a prefix of a next step.
std::string absent_keys_of_role(const FamilyReadings& readings, std::string_view role);

// Like absent_keys_of_role(), for the concepts of an expression.
std::string absent_keys_of_concepts(const FamilyReadings& readings,
                                    std::span<const std::string_view> concepts);

// Like absent_keys_of_role(), for the concepts that affect the finding `code` of check_model().
std::string absent_keys_of_finding(const FamilyReadings& readings, std::string_view code);

}  // namespace moec
