// Walks over several operands with different strides at the same time, as broadcasting, slices and
// transposes need it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ir/graph/type.h"

namespace moec {

// The distances between neighbours along each axis of a row-major tensor.
Dims row_strides(const Dims& dims);

// The strides that broadcast a tensor to `to`: 0 along axes where it has size 1; all 0 for a
// scalar.
Dims broadcast_strides(const Dims& dims, const Dims& to);

// Drops axes of size 1 and joins neighbouring axes that every operand walks with one stride, so
// that the innermost loop is long. At least one axis is left.
void join_axes(Dims& dims, Dims* strides, size_t operands);

// `count` neighbours along the innermost axis: the C-order index of the first one, and for each of
// the N operands its offset and the step to the next one.
template <size_t N>
struct Stretch {
  size_t index = 0;
  int64_t count = 0;
  std::array<int64_t, N> offset{}, step{};
};

// Calls visit(stretch) for the elements of `dims` in C order.
template <size_t N, class Visit>
void walk(Dims dims, std::array<Dims, N> strides, Visit visit) {
  join_axes(dims, strides.data(), N);
  const size_t last = dims.size() - 1;
  Stretch<N> stretch;
  stretch.count = dims[last];
  for (size_t n = 0; n < N; ++n) stretch.step[n] = strides[n][last];
  Dims at(dims.size(), 0);
  while (true) {
    visit(stretch);
    stretch.index += static_cast<size_t>(stretch.count);
    size_t axis = last;
    while (axis > 0) {
      --axis;
      for (size_t n = 0; n < N; ++n) stretch.offset[n] += strides[n][axis];
      if (++at[axis] < dims[axis]) break;
      for (size_t n = 0; n < N; ++n) stretch.offset[n] -= strides[n][axis] * dims[axis];
      at[axis] = 0;
      if (axis == 0) return;
    }
    if (last == 0) return;
  }
}

}  // namespace moec
