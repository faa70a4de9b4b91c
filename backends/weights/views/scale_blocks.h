// Scales stored values without decoding them: multiplies the scales of blocks and keeps the codes.
#pragma once

#include <cstddef>
#include <span>

#include "ir/graph/block_type.h"

namespace moec {

// Returns true if scale_blocks() supports the type: f32, f16, bf16, and blocks with f16 scales.
bool can_scale(BlockType type);

// Multiplies whole blocks in place by a finite factor. Scales are rounded to their type: the
// relative error of a value is up to 2^-11 (2^-8 for bf16, 2^-24 for f32), and larger if its scale
// is subnormal. Bytes are little-endian and need no alignment.
void scale_blocks(BlockType type, std::span<std::byte> blocks, float factor);

}  // namespace moec
