#pragma once

#include "backends/reference/reference.h"

namespace moec {

// Whether round_elements() may change elements of this type.
bool rounds_elements(DType dtype, Precision precision);

// Rounds the elements to the tensor's element type; to binary16 instead where the precision is f16.
// Integers and bools stay as they are.
void round_elements(Tensor& tensor, Precision precision);

}  // namespace moec
