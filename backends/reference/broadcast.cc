#include "backends/reference/broadcast.h"

#include <algorithm>

#include "ir/base/invariant.h"

namespace moec {
namespace {

// True if each operand reaches the next element of axis `outer` by one more step along `inner`.
// Both axes then form one axis of dims[outer] * dims[inner] elements. The condition also holds for
// broadcast axes: 0 = 0 * n.
bool joins(const PerAxis& dims, std::span<const PerAxis> strides, size_t outer, size_t inner) {
  return std::all_of(strides.begin(), strides.end(),
                     [&](const PerAxis& each) { return each[outer] == each[inner] * dims[inner]; });
}

}  // namespace

PerAxis::PerAxis(size_t axes) : size_(axes) {
  MOEC_CHECK(axes <= values_.size(), "a tensor has {} axes, more than the maximum rank", axes);
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
  // A scalar broadcasts to any rank; other operands have the rank of the result (OPS.md).
  if (dims.empty()) return PerAxis(to.size());
  PerAxis strides = row_strides(dims);
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] == 1) strides[i] = 0;
  return strides;
}

// Processes the axes from the innermost outwards and compacts the joined axes at the end of the
// arrays, starting at `front`.
void join_axes(PerAxis& dims, std::span<PerAxis> strides) {
  size_t front = dims.size();
  for (size_t i = dims.size(); i-- > 0;) {
    // The stride of an axis of size 1 is never applied, so the axis cannot prevent a join.
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
  // walk() needs an innermost axis, also for a single element.
  if (!dims.empty()) return;
  dims.push_back(1);
  for (PerAxis& each : strides) each.push_back(0);
}

}  // namespace moec
