#pragma once

#include "backends/reference/reference.h"

namespace moec {

// True if round_elements() can change elements of this type at this precision.
bool rounds_elements(DType dtype, Precision precision);

// Rounds the elements to the tensor's element type, or to binary16 if the precision is f16. Does
// not change integers and bools.
void round_elements(Tensor& tensor, Precision precision);

}  // namespace moec
