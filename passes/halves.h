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

}  // namespace moec
