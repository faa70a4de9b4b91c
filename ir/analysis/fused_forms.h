// Ops that some compilers fuse with their neighbours, lay out or compute in such a way that results
// change.
#pragma once

#include "ir/graph/shard.h"

namespace moec {

// Whether the value is the result of a matmul, or of a convolution of one token or several taps,
// also with a bias added to it: what a compiler may fuse an activation with.
bool is_projection(const Shard& shard, ValueId value);

// Whether the op takes the first rows of [1, H, 1, D] along D, at most `most` of them and a part of
// D that divides it: such a slice is one of blocks, too, [1, H, D / size, size].
bool is_narrow_slice(const Shard& shard, const Op& op, int64_t most);

// Whether the op is an exp of a value that is not the maximum of another one and a constant of at
// least -`limit`.
bool is_exp_below_limit(const Shard& shard, const Op& op, int64_t limit);

// Whether the op is a matmul by a weight that is stored in codes, behind any reshapes and
// transposes.
bool is_coded_matmul(const Shard& shard, const Op& op);
// The same, with blocks that do not divide the inputs, the last axis of the weight.
bool is_coded_unevenly(const Shard& shard, const Op& op);

}  // namespace moec
