// Tensors of a run in reused memory, because a step of one token computes thousands of small
// values.
#pragma once

#include "backends/reference/reference.h"

namespace moec {

// Returns a tensor of the type whose elements are unspecified: the caller writes each of them.
Tensor make_tensor(const Type& type);

Tensor make_zeros(const Type& type);

// Lets this thread's next make_tensor() reuse the memory. Frees large tensors, and those beyond a
// limit of tensors per thread: at most 4 MiB stay allocated.
void recycle(Tensor&& tensor);

}  // namespace moec
