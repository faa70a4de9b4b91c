// How much memory a session leaves for its shards.
#pragma once

#include <cstdint>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// The memory of the machine; 0 where the system does not tell.
uint64_t machine_memory();
// Half of it.
uint64_t default_session_memory();

// What a session takes besides the program and its shards, with so many sequences.
struct SessionParts {
  uint64_t caches = 0;  // and two copies of the largest one while a step reads and writes it
  uint64_t rows = 0;    // of two edges, and the logits of a chunk: given, collected and returned
};
SessionParts parts_beside_shards(const Manifest& manifest, int64_t sequences);

// The bytes for the shards of a session that may take `memory` bytes in all and keeps the caches of
// so many sequences. Error session.memory: what it takes besides leaves none.
Result<uint64_t> room_for_shards(const Manifest& manifest, uint64_t memory, int64_t sequences);

}  // namespace moec
