// Progress of a long command, on stderr: a live line with bytes/s and ETA on a terminal, a plain
// line each time another tenth is done otherwise.
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
  // quiet prints nothing.
  Progress(std::string verb, bool quiet);
  // `bytes` more are done, those of `what`. The clock starts with the first call.
  void advance(uint64_t bytes, uint64_t total, const std::string& what);
  // Wipes the live line.
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
