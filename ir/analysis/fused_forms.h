// Recognizes ops that some compilers miscompute, because they fuse, lay out or evaluate them
// differently.
#pragma once

#include "ir/graph/shard.h"

namespace moec {

// True if the value is a projection that a compiler may fuse with an activation: a matmul, or a
// convolution over one token or with several taps, with or without an added bias.
bool is_projection(const Shard& shard, ValueId value);

// True if the op slices the first `size` elements of [1, H, 1, D] along D, where `size` is at most
// `most`, less than D, and divides D. Such a slice is also the first block of [1, H, D / size,
// size].
bool is_narrow_slice(const Shard& shard, const Op& op, int64_t most);

// True if the op is an exp whose operand has no lower bound: it is not max(x, c) with a constant c
// >= -`limit`.
bool is_exp_below_limit(const Shard& shard, const Op& op, int64_t limit);

// True if the op is a matmul with a quantized weight, possibly through reshapes and transposes.
bool is_coded_matmul(const Shard& shard, const Op& op);
// True if the op is such a matmul and the blocks do not divide the weight's last axis, the inputs.
bool is_coded_unevenly(const Shard& shard, const Op& op);

}  // namespace moec
