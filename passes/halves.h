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
// The logits as two halves, where they are the result of a projection; else as they are.
// Projections sum up in more digits than their element type has, so that another one, of the same
// inputs and of the logits themselves, gives what the rounding of the logits lost. Where the inputs
// are an RMS norm, the halves leave out the rounding of its product with its weights, too.
// `most_channels` is the limit of one value, 0 for none: logits that need more stay as they are.
Halves logit_halves(Builder& b, ValueId logits, int64_t most_channels);
// sigmoid(x) - 1/2. The errors of sigmoid and tanh near 0 are the smaller, the smaller the result:
// sigmoid(-|x|) serves where it is below 1/4, tanh(|x| / 2) elsewhere. The halves overlap if x has
// a low half.
Halves centered_sigmoid(Builder& b, const Halves& x);

}  // namespace moec
