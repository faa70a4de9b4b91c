// Progress of a long command, on stderr. On a terminal, one line with the rate and the time left is
// rewritten; otherwise, one line is printed per completed tenth.
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
  // `verb` begins each line, e.g. "export". `unit` names the counted unit, in the plural. Prints
  // nothing if `quiet` is set.
  Progress(std::string verb, bool quiet, std::string unit = "bytes");
  // Adds `count` units to the work done of `total`. `what` names the current item. The first call
  // starts the clock.
  void advance(uint64_t count, uint64_t total, const std::string& what);
  // Clears the line on a terminal.
  void finish();

 private:
  void print_line(const std::string& what);
  std::string amount(double count) const;

  std::mutex mutex_;
  std::string verb_, unit_;
  uint64_t total_ = 1, done_ = 0, last_tenth_ = 0;
  bool quiet_, terminal_;
  std::optional<std::chrono::steady_clock::time_point> start_;
  std::chrono::steady_clock::time_point last_print_;
};

}  // namespace moec
