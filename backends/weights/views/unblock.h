// Decodes the block types of GGUF, bit-identical to GGUF's own readers.
#pragma once

#include <cstddef>

#include "ir/graph/weight_view.h"

namespace moec {

// Writes `step.part` of `blocks` blocks. `step.type` must be decodable and have this part. Bytes
// are little-endian and need no alignment.
void unblock(const UnblockStep& step, const std::byte* from, size_t blocks, float* to);

}  // namespace moec
