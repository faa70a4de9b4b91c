// One program for a range of token widths: what the shards of two widths have in common.
#pragma once

#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"

namespace moec {

// The sizes, -1 where they differ. Of equal rank.
Dims range_dims(const Dims& least, const Dims& largest);

// Whether a program made from `least` runs `larger` too: both are equal but for sizes of values,
// sources and states are the same, a reshape has at most one size that differs, and a slice begins
// at the same place and has the same size, or leads to the end. Error coreml.range names the op.
Status check_range(const Shard& least, const Shard& larger);

}  // namespace moec
