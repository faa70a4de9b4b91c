// Lists of axes, as `transpose` and the view step `permute` hold them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "ir/base/at.h"

namespace moec {

// Whether the list is 0, 1, 2, …
inline bool is_identity(const std::vector<int64_t>& axes) {
  for (int64_t i = 0; i < std::ssize(axes); ++i)
    if (at(axes, i) != i) return false;
  return true;
}

// Whether the list holds each of the axes 0 … rank - 1 once.
inline bool is_permutation(std::vector<int64_t> axes, int64_t rank) {
  std::sort(axes.begin(), axes.end());
  return std::ssize(axes) == rank && is_identity(axes);
}

}  // namespace moec
