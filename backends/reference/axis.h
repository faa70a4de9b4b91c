// What happens along one axis, for the ops and for the composites that use the same arithmetic.
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

// Calls visit(offset of the line's first element, number of the line) for each line along `axis`,
// in C order of the other axes. Lines have dims[axis] elements, `step` apart.
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

// The positions of the k largest, in descending order, the lowest position first among equals. A
// NaN is taken last.
std::vector<int64_t> largest(const Line& line, int64_t k);

}  // namespace moec
