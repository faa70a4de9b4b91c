// Turns SIGHUP, SIGINT and SIGTERM into a request to stop, for work that can stop cleanly.
#pragma once

namespace moec {

// While an object of this class exists (one at a time), the first of these signals is recorded and
// a second one ends the process at once, as it would by default. A signal that the process was
// started to ignore stays ignored.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The number of the signal that arrived, 0 if none did. Any thread may call it.
  static int caught();
};

}  // namespace moec
