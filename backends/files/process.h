// The process of a program that links moec, for its main(): what it inherits and what the system
// refuses it.
#pragma once

#include <string>

namespace moec {

// Opens /dev/null for each of the descriptors 0 to 2 that is closed. Otherwise the next file that
// an export opens would get that number, and what is printed would end up in a shard. Called
// before anything else is opened.
void open_standard_descriptors();

// The above; limits on file sizes that are errors, not signals; and an allocator that gives back
// what is freed.
void set_up_process();

// What a process does at the first memory that is refused, in whatever thread: it writes `message`
// to `descriptor` and exits with `exit_code`. Nothing is unwound: the libraries of the formats
// crash when they are. An export that ends so can be resumed.
struct LastWords {
  std::string message;  // made while there is memory
  int descriptor = 2;
  int exit_code = 1;
};
void end_without_memory(LastWords words);

}  // namespace moec
