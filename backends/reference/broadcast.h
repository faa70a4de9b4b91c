// Walks over several operands with different strides at the same time, as broadcasting, slices and
// transposes need it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/graph/type.h"

namespace moec {

// A number for each axis of a tensor, which allocates nothing: a small op takes less time than an
// allocation or two.
class PerAxis {
 public:
  explicit PerAxis(size_t axes = 0);  // zeros
  explicit PerAxis(std::span<const int64_t> values);
  PerAxis(const Dims& dims)  // NOLINT(google-explicit-constructor): they are the same numbers
      : PerAxis(std::span<const int64_t>(dims)) {}
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](size_t axis) { return values_[axis]; }
  int64_t operator[](size_t axis) const { return values_[axis]; }
  void push_back(int64_t value);
  // Forgets the first axes.
  void drop_front(size_t axes);

 private:
  std::array<int64_t, kMaxRank> values_{};
  size_t size_ = 0;
};

// The distances between neighbours along each axis of a row-major tensor.
PerAxis row_strides(PerAxis dims);

// The strides that broadcast a tensor to `to`: 0 along axes where it has size 1; all 0 for a
// scalar.
PerAxis broadcast_strides(PerAxis dims, PerAxis to);

// Drops axes of size 1 and joins neighbouring axes that every operand walks with one stride, so
// that the innermost loop is long. At least one axis is left.
void join_axes(PerAxis& dims, std::span<PerAxis> strides);

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
void walk(PerAxis dims, std::array<PerAxis, N> strides, Visit visit) {
  join_axes(dims, strides);
  const size_t last = dims.size() - 1;
  Stretch<N> stretch;
  stretch.count = dims[last];
  for (size_t n = 0; n < N; ++n) stretch.step[n] = strides[n][last];
  PerAxis at(dims.size());
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
