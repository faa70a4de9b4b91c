#include "ir/base/process_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

namespace moec {

ProcessMemory process_memory() {
  ProcessMemory memory;
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
  constexpr int kPieceBytes = 256 << 10;  // setting it also ends its growth with each freed piece
  ::mallopt(M_MMAP_THRESHOLD, kPieceBytes);
  // Values between ops come and go by the thousand a second: the system is not to hand out their
  // pages anew each time. By default it gets everything above 128 KiB back at once.
  constexpr int kKeptBytes = 4 << 20;
  ::mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  // Each arena reserves 64 MiB of addresses, which a limit on them (ulimit -v) counts.
  constexpr int kArenas = 4;
  ::mallopt(M_ARENA_MAX, kArenas);
}

void return_free_memory() { ::malloc_trim(0); }

}  // namespace moec
