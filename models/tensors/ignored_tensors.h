// Checkpoint tensors that a model deliberately ignores.
#pragma once

#include <string>

#include "ir/model/model_config.h"

namespace moec {

// The first pattern of model.names.ignored that matches the tensor's name, or null if none does.
const std::string* ignoring_pattern(const ModelConfig& model, const std::string& tensor);

}  // namespace moec
