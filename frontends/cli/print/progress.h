// Progress of a long command, on stderr: a live line with bytes/s and ETA on a terminal, a plain
// line each time another tenth is done otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace moec {

// Thread-safe.
class Progress {
 public:
  // `total_bytes` as known beforehand; quiet prints nothing.
  Progress(std::string verb, uint64_t total_bytes, bool quiet);
  void advance(uint64_t bytes, const std::string& what);
  void finish();

 private:
  void print_line(const std::string& what);

  std::mutex mutex_;
  std::string verb_;
  uint64_t total_, done_ = 0, last_tenth_ = 0;
  bool quiet_, terminal_;
  std::chrono::steady_clock::time_point start_, last_print_;
};

std::string human_bytes(double bytes);  // "1.5 MiB"

}  // namespace moec
