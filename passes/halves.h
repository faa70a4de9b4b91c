// Numbers with about twice the digits of their element type: the unevaluated sum of two.
#pragma once

#include "ir/graph/builder.h"

namespace moec {

// high + low, where |low| is at most half the distance from high to its neighbours. An invalid low
// is 0.
struct Halves {
  ValueId high, low;
};

// x + y and what its rounding loses: exact as long as nothing overflows (Knuth, TAOCP 2, 4.2.2).
// Where a target keeps more digits between ops than the element type has, high has them.
Halves two_sum(Builder& b, ValueId x, ValueId y);
// x + y.
Halves add_halves(Builder& b, const Halves& x, const Halves& y);
// sigmoid(x) - 1/2. The errors of sigmoid and tanh near 0 are the smaller, the smaller the result:
// sigmoid(-|x|) serves where it is below 1/4, tanh(|x| / 2) elsewhere. The halves overlap if x has
// a low half.
Halves centered_sigmoid(Builder& b, const Halves& x);

// The logits of a router with about twice the digits of f16.

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
