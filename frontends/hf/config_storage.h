// How a config says that its checkpoint stores matrices: quantization_config.
#pragma once

#include "frontends/hf/config_reader.h"
#include "ir/plan/model_config.h"

namespace moec {

// quant_method "fp8" with weight_block_size, "mxfp4", or "compressed-tensors" in the format
// pack-quantized with symmetric groups of four bits; without quantization_config plain.
// Findings: hf.config.unknown_storage, hf.config.type, hf.config.unsupported_value,
// hf.config.unknown_key.
StoredWeights read_storage(ConfigReader& reader);

}  // namespace moec
