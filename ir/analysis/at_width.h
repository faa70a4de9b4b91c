// Derives a shard for any number of tokens (a width) from its shards for two other widths.
//
// Passes fold sizes that they know, so the shard for one token may have other ops than that for
// two: a transpose of one row is a reshape. One program for a range of widths needs the same ops at
// each width.
#pragma once

#include <cstdint>

#include "ir/graph/shard.h"

namespace moec {

struct WidthSample {
  int64_t tokens = 0;
  const Shard* shard = nullptr;
};

// The shard with the samples' ops, in which every size is extrapolated linearly in the number of
// tokens from its two values in the samples (T, S + T, heads / groups · T, or a constant). Error
// width.structure if the samples differ in more than sizes, or if the extrapolated shard is
// invalid. The two samples must have different numbers of tokens.
Result<Shard> at_width(const WidthSample& a, const WidthSample& b, int64_t tokens);

}  // namespace moec
