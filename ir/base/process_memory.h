// Memory of the process, as reported by the system.
#pragma once

#include <cstdint>

namespace moec {

struct ProcessMemory {
  uint64_t own = 0;       // bytes now, without file-backed pages
  uint64_t resident = 0;  // bytes now, file-backed pages included
  uint64_t peak = 0;      // maximum of `resident` so far
};

// Returns zeros if the system does not report memory use.
ProcessMemory process_memory();

// Configures the allocator to return large freed blocks to the system and to keep at most 4 MiB of
// small ones. By default, the allocator keeps freed blocks per thread, so the process grows with
// each shard that it writes: from 74 to 164 MiB for 26 shards of 256 experts. Call this function
// from main().
void return_freed_pieces();

// Returns the free small blocks of the allocator to the system.
void return_free_memory();

}  // namespace moec
