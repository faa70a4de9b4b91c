// Turns SIGINT and SIGTERM into a request to stop, for commands that can stop cleanly.
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

// The exit code that shells expect of a process that a signal ended: 130 for SIGINT, 143 for
// SIGTERM.
constexpr int exit_code_of(int signal) { return 128 + signal; }

}  // namespace moec
