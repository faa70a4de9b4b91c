// Derives the shard of any token width from the shards of two other widths.
//
// Passes fold known sizes, so two widths may have different ops: a transpose of one row becomes a
// reshape. A program for a range of widths requires the same ops at every width.
#pragma once

#include <cstdint>

#include "ir/graph/shard.h"

namespace moec {

struct WidthSample {
  int64_t tokens = 0;
  const Shard* shard = nullptr;
};

// Returns the shard with the samples' ops for `tokens` tokens. Each size is extrapolated linearly
// from its values in the two samples: T, S + T, heads / groups · T, or a constant. The samples must
// have different numbers of tokens. Error width.structure: the samples differ in more than sizes,
// or the extrapolated shard is invalid.
Result<Shard> at_width(const WidthSample& a, const WidthSample& b, int64_t tokens);

}  // namespace moec
