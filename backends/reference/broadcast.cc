#include "backends/reference/broadcast.h"

namespace moec {
namespace {

bool joins(const Dims& dims, const Dims* strides, size_t operands, size_t outer, size_t inner) {
  for (size_t n = 0; n < operands; ++n)
    if (strides[n][outer] != strides[n][inner] * dims[inner]) return false;
  return true;
}

}  // namespace

Dims row_strides(const Dims& dims) {
  Dims strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step *= dims[i]) strides[i] = step;
  return strides;
}

Dims broadcast_strides(const Dims& dims, const Dims& to) {
  if (dims.empty()) return Dims(to.size(), 0);
  Dims strides = row_strides(dims);
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] == 1) strides[i] = 0;
  return strides;
}

// Goes from the innermost axis outwards; the axes that are kept collect at the back, from `front`
// on.
void join_axes(Dims& dims, Dims* strides, size_t operands) {
  size_t front = dims.size();
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) continue;
    if (front < dims.size() && joins(dims, strides, operands, i, front)) {
      dims[front] *= dims[i];
      continue;
    }
    --front;
    dims[front] = dims[i];
    for (size_t n = 0; n < operands; ++n) strides[n][front] = strides[n][i];
  }
  const auto dropped = static_cast<std::ptrdiff_t>(front);
  dims.erase(dims.begin(), dims.begin() + dropped);
  for (size_t n = 0; n < operands; ++n)
    strides[n].erase(strides[n].begin(), strides[n].begin() + dropped);
  if (!dims.empty()) return;
  dims = {1};
  for (size_t n = 0; n < operands; ++n) strides[n] = {0};
}

}  // namespace moec
