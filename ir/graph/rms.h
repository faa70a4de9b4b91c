// Root-mean-square normalisation, shared by rms_norm, the q and k norms of attention and the heads
// of recurrent mixers.
#pragma once

#include "ir/graph/builder.h"

namespace moec {

// x / sqrt(mean of x² along the axis + eps), without overflow or underflow. In f16 the root is p ·
// sqrt(mean of (x/p)² + eps/p²), where p is the largest magnitude of x along the axis, at least
// sqrt(eps). Zeros stay zeros even if eps is 0 or underflows: padding tokens are zeros, and a NaN
// in a padding token would reach real tokens through attention.
ValueId rms_normalise(Builder& b, ValueId x, int64_t axis, double eps);
// As above, for a target that may compute x in the element type `computed`: NPU compilers compute
// f32 in f16.
ValueId rms_normalise(Builder& b, ValueId x, int64_t axis, double eps, DType computed);

// x / p for a power of two p, and sqrt(mean of (x/p)² along the axis + eps/p²). The quotient x /
// rms of the two fields equals rms_normalise() of the original x.
struct ScaledRms {
  ValueId x, rms;
};

// For f16. The largest magnitude m of x along the axis is scaled to [1/2, 1). It may be smaller if
// m < 1/16, and lies below 2 if m >= 2^15. Division by a power of two is exact except for
// underflow.
ScaledRms scaled_rms(Builder& b, ValueId x, int64_t axis, double eps);

}  // namespace moec
