// Turns SIGHUP, SIGINT and SIGTERM into a request to stop, for work that can stop cleanly.
#pragma once

namespace moec {

// While an object of this class exists (at most one at a time), the first of these signals is
// recorded. A second one has its default action and ends the process. Signals that the process
// ignored at start stay ignored.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Returns the number of the recorded signal, or 0. Thread-safe.
  static int caught();
};

}  // namespace moec
