// Process-wide setup for main(): inherited descriptors, file size limits, memory exhaustion.
#pragma once

#include <string>

namespace moec {

// Opens /dev/null for each closed descriptor from 0 to 2. Otherwise the next file that an export
// opens would get that number, and printed text would go into a shard. Call before any other file
// is opened.
void open_standard_descriptors();

// Calls open_standard_descriptors(), turns file size limits into errors instead of signals, and
// makes the allocator return freed memory.
void set_up_process();

// Action on the first failed allocation, in any thread: writes `message` to `descriptor` and exits
// with `exit_code`. Does not unwind, because the format libraries crash during unwinding. An export
// that ends this way can be resumed.
struct LastWords {
  std::string message;  // allocated in advance
  int descriptor = 2;
  int exit_code = 1;
};
void end_without_memory(LastWords words);

}  // namespace moec
