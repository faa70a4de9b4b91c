// Reads how a checkpoint stores its matrices, from quantization_config (or MLX's quantization).
#pragma once

#include <span>
#include <string_view>

#include "frontends/sources/config/config_reader.h"
#include "ir/model/model_config.h"

namespace moec {

// Without quantization_config, weights are plain. Supports these values of quant_method:
//   fp8                 e4m3 with one factor per block (weight_block_size) or per matrix
//   mxfp4
//   compressed-tensors  the formats pack-quantized (4 or 8 bits), float-quantized and
//                       nvfp4-pack-quantized
//   modelopt            quant_algo NVFP4 or FP8
//   gptq                2, 3, 4 or 8 bits, the checkpoint formats gptq and gptq_v2
//   awq                 4 bits, version gemm
//   bitsandbytes        4 bits (nf4, fp4) with or without nested factors, and LLM.int8
//   none                MLX: mode affine, 2 to 8 bits; or bitsandbytes with load_in_…
// Quantized activations are accepted for 8-bit and 4-bit floats: moec computes with activations
// that are not quantized. Findings: hf.config.unknown_storage, hf.config.type,
// hf.config.unsupported_value, hf.config.unknown_key.
StoredWeights read_storage(ConfigReader& reader);

// Patterns of the tensors that checkpoints with this storage have besides those of
// stored_tensors(), or that no view reads: shapes that the config implies, groups of columns that
// are consecutive, factors of activations and caches, descriptions that were read before.
std::span<const std::string_view> ignored_of(const StoredWeights& stored);

}  // namespace moec
