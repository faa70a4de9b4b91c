// Double-word arithmetic: numbers are unevaluated sums of two values, with about twice the
// precision of the element type.
#pragma once

#include "ir/graph/builder.h"

namespace moec {

// The number high + low, where |low| is at most half the distance from high to its neighbours. An
// invalid `low` means 0.
struct Halves {
  ValueId high, low;
};

// x + y and its rounding error; exact unless the sum overflows (Knuth, TAOCP 2, 4.2.2). If a target
// computes with higher precision between ops, `high` has that precision.
Halves two_sum(Builder& b, ValueId x, ValueId y);
// x + y.
Halves add_halves(Builder& b, const Halves& x, const Halves& y);
// sigmoid(x) - 1/2. The absolute errors of sigmoid and tanh shrink with their results. The function
// therefore uses sigmoid(-|x|) where that is below 1/4, and tanh(|x| / 2) elsewhere. The halves
// overlap if x has a low half.
Halves centered_sigmoid(Builder& b, const Halves& x);

// Router logits with about twice the precision of f16.

// The unit of the halves. one: the logits themselves. any: the logits times a positive number per
// token, which suffices to compare them and avoids the rounding of a division.
enum class LogitUnit : uint8_t { one, any };

// Returns the logits as two halves if they are the result of a projection; otherwise returns them
// unchanged. Projections accumulate in higher precision than their element type. A second
// projection, of the same inputs and the negated logits, therefore computes the rounding error of
// the logits. If the inputs are an RMS norm, its weights are folded into the projection's
// checkpoint weights, which are stored in two halves. This removes the rounding of the weights and
// of the norm's product with its weights. With LogitUnit::any it also removes the norm's division,
// so that only `low` itself is rounded. `most_channels` limits the channels of a value (0: no
// limit); logits that would need more are returned unchanged.
Halves logit_halves(Builder& b, ValueId logits, LogitUnit unit, int64_t most_channels);

}  // namespace moec
