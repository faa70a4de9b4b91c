// The values that a model has for the concepts of configs (models/families/family_vocabulary.h):
// the reverse of reading a config.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "ir/model/model_config.h"

namespace moec {

// Nothing: the model does not say, or the concept is of configs alone.
using ConceptValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

ConceptValue concept_value(const ModelConfig& model, std::string_view name);

// The value as a number; 0 for names and nothing.
double concept_number(const ConceptValue& value);

// For messages.
std::string to_string(const ConceptValue& value);

}  // namespace moec
