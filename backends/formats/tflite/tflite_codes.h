// The TFLite forms of encoded weights [N, K] of a FULLY_CONNECTED with f32 activations.
//
//   affine(8; 1, K), affine(4; 1, K) with an even K
//       INT8 or INT4 codes, one f32 scale per row in the tensor's QuantizationParameters
//   affine(4; 1, B) with B of 32, 64, 128 or 256 that divides K
//       INT4 codes with BlockwiseQuantization: the scales are an f16 tensor [N, K/B] of the
//       subgraph. XNNPACK has no kernel for other blocks. With f32 scales it refuses the model, and
//       the reference kernel returns NaN without an error (ai-edge-litert 2.3.0)
// The codes are in two's complement, the first of a byte in its low bits. LiteRT quantizes the
// activations of such products to int8, one scale per row.
#pragma once

#include <optional>

#include "ir/graph/shard.h"

namespace moec {

enum class TfliteWeightForm : uint8_t { plain, rows, blocks };

// Returns the form of a weight with this encoding; nullopt if TFLite has none.
std::optional<TfliteWeightForm> tflite_weight_form(const Encoding& encoding, const Type& type);

// The type in which the scales of a weight are stored; unset: that of the weight.
std::optional<DType> scale_dtype(const Encoding& encoding, const Type& type);

// Fails with emit.encoding if a weight has no form, or if an op other than a FULLY_CONNECTED uses a
// quantized weight.
Status check_codes(const Shard& shard);

}  // namespace moec
