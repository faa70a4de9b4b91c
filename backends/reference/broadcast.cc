#include "backends/reference/broadcast.h"

#include <algorithm>

#include "ir/base/invariant.h"

namespace moec {
namespace {

bool joins(const PerAxis& dims, std::span<const PerAxis> strides, size_t outer, size_t inner) {
  return std::all_of(strides.begin(), strides.end(),
                     [&](const PerAxis& each) { return each[outer] == each[inner] * dims[inner]; });
}

}  // namespace

PerAxis::PerAxis(size_t axes) : size_(axes) {
  MOEC_CHECK(axes <= values_.size(), "a tensor has {} axes", axes);
}

PerAxis::PerAxis(std::span<const int64_t> values) : PerAxis(values.size()) {
  std::copy(values.begin(), values.end(), values_.begin());
}

void PerAxis::push_back(int64_t value) {
  MOEC_CHECK(size_ < values_.size(), "a tensor has more than {} axes", size_);
  values_[size_++] = value;
}

void PerAxis::drop_front(size_t axes) {
  std::copy(values_.begin() + static_cast<std::ptrdiff_t>(axes), values_.end(), values_.begin());
  size_ -= axes;
}

PerAxis row_strides(PerAxis dims) {
  PerAxis strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step *= dims[i]) strides[i] = step;
  return strides;
}

PerAxis broadcast_strides(PerAxis dims, PerAxis to) {
  if (dims.empty()) return PerAxis(to.size());
  PerAxis strides = row_strides(dims);
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] == 1) strides[i] = 0;
  return strides;
}

// Goes from the innermost axis outwards; the axes that are kept collect at the back, from `front`
// on.
void join_axes(PerAxis& dims, std::span<PerAxis> strides) {
  size_t front = dims.size();
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) continue;
    if (front < dims.size() && joins(dims, strides, i, front)) {
      dims[front] *= dims[i];
      continue;
    }
    --front;
    dims[front] = dims[i];
    for (PerAxis& each : strides) each[front] = each[i];
  }
  dims.drop_front(front);
  for (PerAxis& each : strides) each.drop_front(front);
  if (!dims.empty()) return;
  dims.push_back(1);
  for (PerAxis& each : strides) each.push_back(0);
}

}  // namespace moec
