// Reads how a checkpoint stores its matrices: their coding, from quantization_config, and their
// names, from the descriptor.
#pragma once

#include "frontends/sources/hf/config_reader.h"
#include "ir/model/model_config.h"

namespace moec {

// Supports these values of quant_method: "fp8" with weight_block_size, "mxfp4", and
// "compressed-tensors" in the format pack-quantized with symmetric 4-bit groups. Without
// quantization_config, weights are plain. Findings: hf.config.unknown_storage, hf.config.type,
// hf.config.unsupported_value, hf.config.unknown_key.
StoredWeights read_storage(ConfigReader& reader);

// The first name of each role, and the patterns of tensors that the model does not use. Assumes the
// usual of each two ways to store matrices (role_choices()); resolve_names() replaces it by that of
// the files. `model` must have its layers, experts, head and storage.
TensorNames read_names(ConfigReader& reader, const ModelConfig& model);

}  // namespace moec
