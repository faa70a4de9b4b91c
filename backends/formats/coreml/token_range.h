// Checks whether one program can serve a range of token widths.
#pragma once

#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"

namespace moec {

// Returns the sizes, with -1 for each size that differs between `least` and `largest`. The ranks
// must be equal.
Dims range_dims(const Dims& least, const Dims& largest);

// Fails unless a program built from `least` can also run `larger`. The shards may differ only in
// the sizes of values; sources and states must be equal. A reshape may have one size that differs.
// A slice must begin at the same index, and have the same size or extend to the end. Error
// coreml.range names the op.
Status check_range(const Shard& least, const Shard& larger);

}  // namespace moec
