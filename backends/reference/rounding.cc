#include "backends/reference/rounding.h"

#include "ir/graph/scalar.h"

namespace moec {

void round_elements(Tensor& tensor, Precision precision) {
  if (!is_float(tensor.type.dtype)) return;
  const DType dtype = precision == Precision::f16 ? DType::f16 : tensor.type.dtype;
  if (dtype == DType::f32) return;
  for (float& value : tensor.data) value = round_to(dtype, value);
}

}  // namespace moec
