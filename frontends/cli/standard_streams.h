// stdin, stdout and stderr of the process, whatever the caller made of them.
#pragma once

namespace moec {

// Opens /dev/null for each of the descriptors 0 to 2 that is closed. Otherwise the next file that
// an export opens would get that number, and what is printed would end up in a shard. Called
// before anything else is opened.
void open_standard_descriptors();

// run_cli(), with results that cannot be written as an error: stdout is flushed, and where that or
// an earlier write failed, says so on stderr and returns kExitBadInput in place of kExitFine. Also
// reports what the system refuses the main thread (error cli.system).
int run_and_flush(int argc, const char* const* argv);

}  // namespace moec
