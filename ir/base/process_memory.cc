#include "ir/base/process_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

namespace moec {

ProcessMemory process_memory() {
  ProcessMemory memory;
  // /proc/self/status gives the three values in KiB.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    const auto kibibytes = [&](std::string_view key) -> uint64_t {
      return line.starts_with(key) ? std::strtoull(line.c_str() + key.size(), nullptr, 10) : 0;
    };
    if (const uint64_t own = kibibytes("RssAnon:")) memory.own = own << 10;
    if (const uint64_t now = kibibytes("VmRSS:")) memory.resident = now << 10;
    if (const uint64_t most = kibibytes("VmHWM:")) memory.peak = most << 10;
  }
  return memory;
}

void return_freed_pieces() {
  constexpr int kPieceBytes = 256 << 10;  // a fixed value also stops glibc from raising it
  ::mallopt(M_MMAP_THRESHOLD, kPieceBytes);
  // Intermediate values are allocated thousands of times per second. Keeping freed memory avoids
  // page faults; the default threshold of 128 KiB returns it at once.
  constexpr int kKeptBytes = 4 << 20;
  ::mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  // Each arena reserves 64 MiB of address space, which counts towards ulimit -v.
  constexpr int kArenas = 4;
  ::mallopt(M_ARENA_MAX, kArenas);
}

void return_free_memory() { ::malloc_trim(0); }

}  // namespace moec
