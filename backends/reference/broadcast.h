// Walks over operands of different strides in step: broadcasting, slices, transposes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ir/graph/type.h"

namespace moec {

// Distances between neighbours along each axis of a row-major tensor.
Dims row_strides(const Dims& dims);

// The strides that stretch a tensor over `to`: 0 along axes where it has size 1; all 0 for a
// scalar.
Dims broadcast_strides(const Dims& dims, const Dims& to);

// Drops axes of size 1 and joins neighbours that every operand walks evenly, so that the innermost
// loop is long. At least one axis is left.
void join_axes(Dims& dims, Dims* strides, size_t operands);

// `count` neighbours along the innermost axis: the place of the first one, and where each of the N
// operands has it and goes from there.
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
