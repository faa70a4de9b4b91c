// Encoders of GGUF's block types, the inverse of unblock.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/graph/block_type.h"

namespace moec {

// Returns true if encode_blocks() supports this type.
bool can_encode_blocks(BlockType type);

// Writes `blocks` blocks of finite values, with block_format(type).elements values each:
//   q8_0, q4_0   scale and codes of fit_affine(); the scale of q4_0 has 8 significant bits, so its
//                codes decode to the same bits as those of int4:32
//                (backends/weights/encode/affine.h)
//   tq1_0, tq2_0 the largest magnitude as scale; each value over the scale, rounded to -1, 0 or 1.
//                Values that are -d, 0 or d, with d exact in f16, do not change
//   mxfp4        tries the scale for the exponent of the largest value, and the next larger power
//                of two; keeps the lower squared error. Rounds to nearest, ties to even
void encode_blocks(BlockType type, const float* values, size_t blocks, std::byte* to);

// Returns the number of values, which must be finite, that exceed the range of this block type with
// any scale.
uint64_t count_too_large(BlockType type, const float* values, size_t count);

// Converts MXFP4 blocks from the layout of checkpoints (elements 2j and 2j + 1 in byte j after the
// scale) to that of GGUF (elements j and j + 16). Values do not change.
void pair_as_gguf(const std::byte* from, size_t blocks, std::byte* to);
// Returns the number of NaN elements: those of blocks with scale 255. A GGUF reader would decode
// them as huge numbers.
uint64_t count_nan_mxfp4(const std::byte* from, size_t blocks);

}  // namespace moec
