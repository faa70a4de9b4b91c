// The root-mean-square normalisation that rms_norm, the q and k norms of attention and the heads of
// recurrent mixers share.
#pragma once

#include "ir/graph/builder.h"

namespace moec {

// x / sqrt(mean of x² along the axis + eps), in an order that stays in range: in f16 the root is
// p · sqrt(mean of (x/p)² + eps/p²), where p is the largest magnitude of x along the axis, at least
// sqrt(eps). Zeros stay zeros, also where eps is 0 or vanishes in the element type: padding tokens
// are zeros, and a NaN of theirs would reach the real tokens through attention.
ValueId rms_normalise(Builder& b, ValueId x, int64_t axis, double eps);
// The same for an x that may be computed in `computed`: compilers of NPUs compute f32 in f16.
ValueId rms_normalise(Builder& b, ValueId x, int64_t axis, double eps, DType computed);

// x divided by a power of two, and sqrt(mean of its squares along the axis + eps in its unit):
// x / rms is rms_normalise() of x.
struct ScaledRms {
  ValueId x, rms;
};

// For f16: the largest magnitude of the scaled x along the axis is in [1/2, 1), or smaller if that
// of x is below 1/16, or below 2 if that of x is 2^15 or above. Where it is not far below, no digit
// of x is lost, since a power of two divides exactly.
ScaledRms scaled_rms(Builder& b, ValueId x, int64_t axis, double eps);

}  // namespace moec
