// Arithmetic along one axis, shared by ops and composites.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/graph/type.h"

namespace moec {

// Elements along one axis of a tensor: data[0], data[step], …
struct Line {
  const float* data = nullptr;
  int64_t size = 0, step = 1;

  float operator[](int64_t i) const { return data[i * step]; }
};

// Lines along `axis` of a tensor: each has dims[axis] elements, `step` apart. for_each() calls
// visit(offset of the first element) for each line, in row-major order of the other axes.
struct Lines {
  int64_t outer = 1, size = 1, step = 1;
  Lines(const Dims& dims, int64_t axis);

  template <class Visit>
  void for_each(Visit visit) const {
    for (int64_t i = 0; i < outer; ++i)
      for (int64_t j = 0; j < step; ++j) visit(i * size * step + j);
  }
};

// True if a reshape of `from` to `to` keeps the elements of an axis together: `from_axis` and
// `to_axis` have the same size, and the sizes before them the same product.
bool keeps_axis(const Dims& from, int64_t from_axis, const Dims& to, int64_t to_axis);

double sum_of(const Line& line);

// Writes exp(x - max) / Σ exp(x - max) to `to`, with the step of `line`.
void softmax(const Line& line, float* to);

// Returns the positions of the k largest elements in descending order; ties go to the lower
// position. NaNs come last.
std::vector<int64_t> largest(const Line& line, int64_t k);

}  // namespace moec
