// The median of a list of numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace moec {

// Returns the median, or 0 if there are no values. For an even number of values, this is the mean
// of the middle two.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace moec
