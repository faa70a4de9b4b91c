// Reads the names of a checkpoint's tensors from the descriptor.
#pragma once

#include "frontends/sources/config/config_reader.h"
#include "ir/model/model_config.h"

namespace moec {

// The first name of each role, and the patterns of tensors that the model does not use. Assumes the
// usual of each two ways to store matrices (role_choices()); resolve_names() replaces it by that of
// the files. `model` must have its layers, experts, head and storage.
TensorNames read_names(ConfigReader& reader, const ModelConfig& model);

}  // namespace moec
