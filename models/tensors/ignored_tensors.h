// Checkpoint tensors that a model deliberately ignores.
#pragma once

#include <string>
#include <string_view>

#include "ir/model/model_config.h"

namespace moec {

// Matches a name pattern in which * matches any run of characters, including an empty one.
// Runs in time proportional to at most the product of both lengths.
bool matches_wildcard(std::string_view text, std::string_view pattern);

// The first pattern of model.names.ignored that matches the tensor's name, or null if none does.
const std::string* ignoring_pattern(const ModelConfig& model, const std::string& tensor);

}  // namespace moec
