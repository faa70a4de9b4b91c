// The values of GGUF's block types, bit for bit those of its own readers.
#pragma once

#include <cstddef>

#include "ir/graph/block_type.h"

namespace moec {

// Writes the elements of `blocks` blocks. The type must be one that is decoded. Bytes are
// little-endian and need no alignment.
void unblock(BlockType type, const std::byte* from, size_t blocks, float* to);

}  // namespace moec
