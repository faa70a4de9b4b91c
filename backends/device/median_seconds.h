// Durations of repeated calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "backends/device/check_stop.h"
#include "ir/base/median.h"
#include "ir/base/seconds_since.h"

namespace moec {

// Smallest measured duration: a profile must not contain a zero, which a coarse clock could
// measure.
inline constexpr double kLeastSeconds = 1e-12;

// How long a call is repeated.
struct Repetition {
  double seconds = 0;  // at least three calls take place, even if they take longer
  StopRequest stop;    // asked before each call
};

// Calls call(0), call(1), …, which return a Status, for about repetition.seconds. Returns the
// median duration, because other programs on the machine delay single calls; at least
// kLeastSeconds. Calls prepare() before each call, outside of its duration. Errors: those of
// `call`, after the first of which it ends; doctor.interrupted.
template <class Call, class Prepare = decltype([] {})>
Result<double> median_seconds(const Repetition& repetition, Call call, Prepare prepare = {}) {
  constexpr size_t kLeastCalls = 3;
  std::vector<double> durations;
  const Clock::time_point start = Clock::now();
  while (durations.size() < kLeastCalls || seconds_since(start) < repetition.seconds) {
    MOEC_TRY(check_stop(repetition.stop));
    prepare();
    const Clock::time_point begin = Clock::now();
    MOEC_TRY(call(durations.size()));
    durations.push_back(seconds_since(begin));
  }
  return std::max(median(std::move(durations)), kLeastSeconds);
}

}  // namespace moec
