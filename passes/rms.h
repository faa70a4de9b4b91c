// The root-mean-square normalisation that rms_norm and the q and k norms of attention share.
#pragma once

#include "ir/builder.h"

namespace moec {

// x · reciprocal(sqrt(mean of x² along the axis + eps)), in an order that stays in range: in f16 x
// is divided by its largest magnitude p along the axis first, and eps by p².
ValueId rms_normalise(Builder& b, ValueId x, int64_t axis, double eps);

}  // namespace moec
