// Computes a model's values of the concepts of configs (models/families/family_vocabulary.h), the
// inverse of reading a config.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/model/model_config.h"

namespace moec {

// std::monostate if the model does not determine the value, or if the concept exists only in
// configs.
using ConceptValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>>;

ConceptValue concept_value(const ModelConfig& model, std::string_view name);

// Returns the value as a number; 0 for names and for std::monostate.
double concept_number(const ConceptValue& value);

// Returns the value as text, for messages.
std::string to_string(const ConceptValue& value);

}  // namespace moec
