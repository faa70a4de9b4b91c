#include "backends/reference/rounding.h"

#include "backends/weights/views/convert.h"

namespace moec {

// Elements are held as f32, so an f32 tensor needs rounding only if the precision is f16.
bool rounds_elements(DType dtype, Precision precision) {
  return is_float(dtype) && (precision == Precision::f16 || dtype != DType::f32);
}

void round_elements(Tensor& tensor, Precision precision) {
  if (!rounds_elements(tensor.type.dtype, precision)) return;
  const DType dtype = precision == Precision::f16 ? DType::f16 : tensor.type.dtype;
  round_values(dtype, tensor.data.data(), tensor.data.size());
}

}  // namespace moec
