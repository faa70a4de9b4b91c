// Decodes the blocks of GGUF types whose elements are entries of codebooks: iq1_s, iq1_m, iq2_xxs,
// iq2_xs, iq2_s, iq3_xxs, iq3_s. Values equal those of ggml bit for bit.
#pragma once

#include <cstddef>

#include "ir/graph/block_type.h"

namespace moec {

using DecodeGridBlock = void (*)(const std::byte* block, float* values);

// The decoder of one block of 256 values; null for types without codebooks.
DecodeGridBlock grid_decoder(BlockType type);

constexpr bool has_codebook(BlockType type) {
  return type >= BlockType::iq1_s && type <= BlockType::iq3_s;
}

}  // namespace moec
