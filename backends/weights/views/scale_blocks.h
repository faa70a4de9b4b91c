// Multiplies stored values without decoding them: of blocks only the scales change, and the codes
// stay.
#pragma once

#include <cstddef>
#include <span>

#include "ir/graph/block_type.h"

namespace moec {

// Whether scale_blocks() takes the type: f32, f16, bf16, and blocks whose scales are f16.
bool can_scale(BlockType type);

// Multiplies whole blocks in place. The factor must be finite. Scales are rounded to their type, so
// that each value has a relative error of up to 2^-11 (2^-8 for bf16, 2^-24 for f32), and more
// where its scale is subnormal. Bytes are little-endian and need no alignment.
void scale_blocks(BlockType type, std::span<std::byte> blocks, float factor);

}  // namespace moec
