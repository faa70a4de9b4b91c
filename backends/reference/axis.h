// Arithmetic along one axis, for ops and for the composites that use it, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/graph/type.h"

namespace moec {

// The elements along one axis of a tensor: data[0], data[step], …
struct Line {
  const float* data = nullptr;
  int64_t size = 0, step = 1;

  float operator[](int64_t i) const { return data[i * step]; }
};

// The lines along `axis` of a tensor: each has dims[axis] elements, `step` apart. for_each() calls
// visit(offset of the first element) for each line, in C order of the other axes.
struct Lines {
  int64_t outer = 1, size = 1, step = 1;
  Lines(const Dims& dims, int64_t axis);

  template <class Visit>
  void for_each(Visit visit) const {
    for (int64_t i = 0; i < outer; ++i)
      for (int64_t j = 0; j < step; ++j) visit(i * size * step + j);
  }
};

double sum_of(const Line& line);

// exp(x - max) / Σ exp(x - max); `to` has the same step.
void softmax(const Line& line, float* to);

// The positions of the k largest elements, in descending order; of equal elements the lower
// position comes first. NaNs come last.
std::vector<int64_t> largest(const Line& line, int64_t k);

}  // namespace moec
