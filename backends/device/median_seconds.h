// Durations of repeated calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ir/base/seconds_since.h"

namespace moec {

// Smallest measured duration: a profile must not contain a zero, which a coarse clock could
// measure.
inline constexpr double kLeastSeconds = 1e-12;

// Calls call(0), call(1), … for about `budget` seconds, but at least three times. Returns the
// median duration, because other programs on the machine delay single calls.
template <class Call>
double median_seconds(double budget, Call call) {
  constexpr size_t kLeastCalls = 3;
  std::vector<double> durations;
  const Clock::time_point start = Clock::now();
  while (durations.size() < kLeastCalls || seconds_since(start) < budget) {
    const Clock::time_point begin = Clock::now();
    call(durations.size());
    durations.push_back(seconds_since(begin));
  }
  const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  return *middle;
}

}  // namespace moec
