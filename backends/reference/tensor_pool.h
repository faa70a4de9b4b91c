// Tensors of a run in reused memory, because a step of one token computes thousands of small
// values.
#pragma once

#include "backends/reference/reference.h"

namespace moec {

// Returns a tensor of the type whose elements are unspecified: the caller writes each of them.
Tensor make_tensor(const Type& type);

Tensor make_zeros(const Type& type);

// Lets this thread's next make_tensor() of as many elements reuse the memory, which is not cleared.
// Of a thread, at most 20 MiB stay allocated.
void recycle(Tensor&& tensor);

}  // namespace moec
