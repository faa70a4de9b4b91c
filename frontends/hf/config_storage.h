// How a config says that its checkpoint stores matrices: quantization_config.
#pragma once

#include "frontends/hf/config_reader.h"
#include "ir/model_config.h"

namespace moec {

// quant_method "fp8" with weight_block_size, or "mxfp4"; without quantization_config plain.
// Findings: hf.config.unknown_storage, hf.config.type, hf.config.unsupported_value,
// hf.config.unknown_key.
StoredWeights read_storage(ConfigReader& reader);

}  // namespace moec
