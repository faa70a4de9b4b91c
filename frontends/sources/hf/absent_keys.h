// Names the keys that a config leaves out, for findings that the default of such a key may explain.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "frontends/sources/hf/config_readings.h"
#include "models/families/family.h"

namespace moec {

// How the concepts of a config were read, and by which family.
struct FamilyReadings {
  const Family& family;
  std::span<const ConceptReading> concepts;
};

// One sentence, and a space after it, for each absent key whose default determines the shape or the
// number of the role's tensors: `The config has no "num_key_value_heads"; the default, 8, is taken.
// `. Empty when the config gives all of them; at most four sentences.
std::string absent_keys_of_role(const FamilyReadings& readings, std::string_view role);

// The same for concepts by name, those that an expression is made of.
std::string absent_keys_of_concepts(const FamilyReadings& readings,
                                    std::span<const std::string_view> concepts);

// The same for a finding of check_model(), by its code.
std::string absent_keys_of_finding(const FamilyReadings& readings, std::string_view code);

}  // namespace moec
