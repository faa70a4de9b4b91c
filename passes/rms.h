// The root-mean-square normalisation that rms_norm and the q and k norms of attention share.
#pragma once

#include "ir/graph/builder.h"

namespace moec {

// x / sqrt(mean of x² along the axis + eps), in an order that stays in range: in f16 the root is
// p · sqrt(mean of (x/p)² + eps/p²), where p is the largest magnitude of x along the axis, at least
// sqrt(eps). Zeros stay zeros, also where eps is 0 or vanishes in the element type: padding tokens
// are zeros, and a NaN of theirs would reach the real tokens through attention.
ValueId rms_normalise(Builder& b, ValueId x, int64_t axis, double eps);

}  // namespace moec
