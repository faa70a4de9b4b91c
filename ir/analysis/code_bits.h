// Finds the smallest code width among a shard's stored weights.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph/shard.h"

namespace moec {

// Returns the smallest number of bits per code among the shard's weights; scales, offsets and
// tables do not count. Uses the encoding of a weight that will be emitted, and the unpack steps of
// a weight that was read back. Empty if no weight has codes.
std::optional<int64_t> fewest_code_bits(const Shard& shard);

}  // namespace moec
