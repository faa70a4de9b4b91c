// One program for a range of token widths: what the shards of two widths have in common.
#pragma once

#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"

namespace moec {

// The sizes that both have, -1 where they differ. The ranks must be equal.
Dims range_dims(const Dims& least, const Dims& largest);

// Fails unless a program made from `least` also runs `larger`: they differ in sizes of values only,
// sources and states are equal, a reshape has at most one size that differs, and a slice begins at
// the same place and either has the same size or extends to the end. Error coreml.range names the
// op.
Status check_range(const Shard& least, const Shard& larger);

}  // namespace moec
