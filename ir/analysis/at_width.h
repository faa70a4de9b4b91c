// A shard for any number of tokens, from its shards for two others.
//
// Passes see numbers, so the shard for one token may have other ops than that for two: a transpose
// of one row is a reshape. One program for a range of widths needs the same ops at each of them.
#pragma once

#include <cstdint>

#include "ir/graph/shard.h"

namespace moec {

struct WidthSample {
  int64_t tokens = 0;
  const Shard* shard = nullptr;
};

// The shard that has the ops of both samples and, as every size, the linear function of the number
// of tokens that their two sizes give (T, S + T, heads / groups · T; or a fixed size). Error
// width.structure when the samples differ in more than sizes, or when no shard of `tokens` tokens
// fits. The samples' numbers of tokens differ.
Result<Shard> at_width(const WidthSample& a, const WidthSample& b, int64_t tokens);

}  // namespace moec
