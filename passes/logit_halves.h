// The logits of a router with about twice the digits of f16.
#pragma once

#include "passes/halves.h"

namespace moec {

// any: the halves are the logits multiplied by a positive number that all logits of a token share.
// It is enough to compare them with each other, and none of them is rounded by a division.
enum class LogitUnit : uint8_t { one, any };

// The logits as two halves, where they are the result of a projection; else as they are.
// Projections sum up in more digits than their element type has, so that another one, of the same
// inputs and of the logits themselves, gives what the rounding of the logits lost.
// Where the inputs are an RMS norm, its weights are folded into those of the projection, as they
// are in the checkpoint and stored in two halves: the halves of the logits leave out the roundings
// of the weights and of the norm's product with its weights. In any unit they leave out the norm's
// division, too, so that only `low` itself is rounded.
// `most_channels` is the limit of one value, 0 for none: logits that need more stay as they are.
Halves logit_halves(Builder& b, ValueId logits, LogitUnit unit, int64_t most_channels);

}  // namespace moec
