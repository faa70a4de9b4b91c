// The process and its standard streams, whatever the caller made of them.
#pragma once

namespace moec {

// Opens /dev/null for each of the descriptors 0 to 2 that is closed. Otherwise the next file that
// an export opens would get that number, and what is printed would end up in a shard. Called
// before anything else is opened.
void open_standard_descriptors();

// The above; limits on file sizes that are errors, not signals; and an allocator that gives back
// what is freed.
void set_up_process();

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
