// Large weights that stay in their files. Convolutions and matrix products take them as operands
// and widen them part by part; the Tensor of such an operand has a type and no elements.
#pragma once

#include "backends/weights/mapped_values.h"

namespace moec {

struct StoredWeight {
  MappedValues values;
  bool rounds = false;  // each element to f16
};

}  // namespace moec
