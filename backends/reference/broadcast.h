// Walks over several operands with different strides in lockstep, for broadcasting, slices and
// transposes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/graph/type.h"

namespace moec {

// A number per axis of a tensor, without heap allocation, because an allocation takes longer than a
// small op.
class PerAxis {
 public:
  explicit PerAxis(size_t axes = 0);  // zeros
  explicit PerAxis(std::span<const int64_t> values);
  PerAxis(const Dims& dims)  // NOLINT(google-explicit-constructor): lossless conversion
      : PerAxis(std::span<const int64_t>(dims)) {}
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](size_t axis) { return values_[axis]; }
  int64_t operator[](size_t axis) const { return values_[axis]; }
  void push_back(int64_t value);
  // Removes the first `axes` axes.
  void drop_front(size_t axes);

 private:
  std::array<int64_t, kMaxRank> values_{};
  size_t size_ = 0;
};

// Returns the strides of a row-major tensor, in elements.
PerAxis row_strides(PerAxis dims);

// Returns the strides that broadcast a tensor to `to`: 0 along axes of size 1; all 0 for a scalar.
PerAxis broadcast_strides(PerAxis dims, PerAxis to);

// Drops axes of size 1 and joins adjacent axes that every operand can traverse with a single
// stride, so that the innermost loop is long. At least one axis remains.
void join_axes(PerAxis& dims, std::span<PerAxis> strides);

// A run of `count` elements along the innermost axis: the row-major index of the first element and,
// per operand, its offset and step.
template <size_t N>
struct StridedRun {
  size_t index = 0;
  int64_t count = 0;
  std::array<int64_t, N> offset{}, step{};
};

// Visits the elements of a tensor with sizes `dims` in row-major order, one run along the innermost
// axis per call.
template <size_t N, class Visit>
void walk(PerAxis dims, std::array<PerAxis, N> strides, Visit visit) {
  join_axes(dims, strides);
  const size_t last = dims.size() - 1;
  StridedRun<N> run;
  run.count = dims[last];
  for (size_t n = 0; n < N; ++n) run.step[n] = strides[n][last];
  PerAxis at(dims.size());
  while (true) {
    visit(run);
    run.index += static_cast<size_t>(run.count);
    size_t axis = last;
    while (axis > 0) {
      --axis;
      for (size_t n = 0; n < N; ++n) run.offset[n] += strides[n][axis];
      if (++at[axis] < dims[axis]) break;
      for (size_t n = 0; n < N; ++n) run.offset[n] -= strides[n][axis] * dims[axis];
      at[axis] = 0;
      if (axis == 0) return;
    }
    if (last == 0) return;
  }
}

}  // namespace moec
