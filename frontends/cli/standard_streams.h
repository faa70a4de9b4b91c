// A command line with its standard streams, whatever the caller made of them.
#pragma once

namespace moec {

// Broken invariants and uncaught exceptions of any thread end the process with code 3. They are
// said on stderr, and with `json` also reported on stdout, as internal.error.
void report_internal_errors(bool json);

// run_cli(), with results that cannot be written as an error: stdout is flushed, and where that or
// an earlier write failed, says so on stderr and returns kExitBadInput in place of kExitFine. Also
// reports what the system refuses: threads and the like (system.resource); and memory
// (system.memory), at which it ends the process with kExitBadInput. Sets up
// report_internal_errors().
int run_and_flush(int argc, const char* const* argv);

}  // namespace moec
