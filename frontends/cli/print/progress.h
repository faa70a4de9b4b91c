// Progress of a long command, on stderr. On a terminal one line is rewritten, with bytes/s and the
// time left; otherwise a line is printed each time another tenth is done.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace moec {

// Thread-safe.
class Progress {
 public:
  // `verb` begins each line: "export". With `quiet` nothing is printed.
  Progress(std::string verb, bool quiet);
  // Adds `bytes`, which belong to `what`, to the bytes done of `total`. The first call starts the
  // clock.
  void advance(uint64_t bytes, uint64_t total, const std::string& what);
  // Clears the line on a terminal.
  void finish();

 private:
  void print_line(const std::string& what);

  std::mutex mutex_;
  std::string verb_;
  uint64_t total_ = 1, done_ = 0, last_tenth_ = 0;
  bool quiet_, terminal_;
  std::optional<std::chrono::steady_clock::time_point> start_;
  std::chrono::steady_clock::time_point last_print_;
};

}  // namespace moec
