// The values that a model has for the concepts of configs (models/families/family_vocabulary.h):
// the reverse of reading a config.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "frontends/sources/gguf/architecture.h"
#include "ir/model/model_config.h"

namespace moec {

// Nothing: the model does not say, or the concept is of configs alone.
using ConceptValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

ConceptValue concept_value(const ModelConfig& model, std::string_view name);

// The value as a number; 0 for names and nothing.
double concept_number(const ConceptValue& value);

// For messages.
std::string to_string(const ConceptValue& value);

// "computes with NAME VALUE, this model has OTHER" for the first concept that llama.cpp takes to be
// a product of others (GgufWriting::equal) and that is another number in `model`; else empty.
std::string broken_product(const ModelConfig& model, const GgufArchitecture& architecture);

}  // namespace moec
