// Encoders of GGUF's block types, the inverse of unblock.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/graph/block_type.h"

namespace moec {

// Elements of a block of the types below.
inline constexpr size_t kEncodedBlock = 32;

// Whether encode_blocks() writes this type.
bool can_encode_blocks(BlockType type);

// Writes `blocks` blocks of finite values:
//   q8_0, q4_0   scale and codes of fit_affine(); the scale of q4_0 has 8 significant bits, so that
//                its codes decode to the same bits as those of int4:32
//                (backends/weights/encode/affine.h)
//   mxfp4        of the power of two with which the largest value fits, and the next one, that with
//                the smaller squared error; numbers rounded to nearest, ties to even
void encode_blocks(BlockType type, const float* values, size_t blocks, std::byte* to);

// How many of these finite values are too large for blocks of this type, whatever the scale.
uint64_t count_too_large(BlockType type, const float* values, size_t count);

// Blocks of MXFP4 as checkpoints have them, with elements 2j and 2j + 1 in byte j behind the scale,
// to those of GGUF, with elements j and j + 16. Values stay as they are.
void pair_as_gguf(const std::byte* from, size_t blocks, std::byte* to);
// How many of their elements are NaN: those of blocks with the scale 255. In a GGUF file they would
// be huge numbers.
uint64_t count_nan_mxfp4(const std::byte* from, size_t blocks);

}  // namespace moec
