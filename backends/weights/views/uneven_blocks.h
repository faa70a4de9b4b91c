// Decodes the blocks of GGUF types whose values are not evenly spaced: nonlinear levels, small
// floats, and entries of codebooks. Values equal those of ggml bit for bit.
#pragma once

#include <cstddef>

#include "ir/graph/block_type.h"

namespace moec {

using DecodeBlock = void (*)(const std::byte* block, float* values);

// The decoder of one block; null for other types.
DecodeBlock uneven_decoder(BlockType type);

}  // namespace moec
