// Reads how a checkpoint's matrices are stored from quantization_config.
#pragma once

#include "frontends/sources/hf/config_reader.h"
#include "ir/model/model_config.h"

namespace moec {

// Supports these values of quant_method: "fp8" with weight_block_size, "mxfp4", and
// "compressed-tensors" in the format pack-quantized with symmetric 4-bit groups. Without
// quantization_config, weights are plain. Findings: hf.config.unknown_storage, hf.config.type,
// hf.config.unsupported_value, hf.config.unknown_key.
StoredWeights read_storage(ConfigReader& reader);

}  // namespace moec
