// In how few bits a shard stores its weights.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph/shard.h"

namespace moec {

// The fewest bits of the codes that weights of the shard are stored in: by the encoding of a weight
// that is to be emitted, by the unpacking of one that was read back. Nothing where no weight is
// stored in codes. Scales, offsets and tables do not count.
std::optional<int64_t> fewest_code_bits(const Shard& shard);

}  // namespace moec
