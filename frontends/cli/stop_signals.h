// SIGINT and SIGTERM as a wish to stop, for commands that can stop cleanly.
#pragma once

namespace moec {

// While there is an object (one at a time), the first of these signals is noted and a second one
// ends the process at once, as by default. A signal that the caller ignores stays ignored.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal's number, 0 when none has come. May be asked from any thread.
  static int caught();
};

// What a shell expects of a process that a signal ended: 130 for SIGINT, 143 for SIGTERM.
constexpr int exit_code_of(int signal) { return 128 + signal; }

}  // namespace moec
