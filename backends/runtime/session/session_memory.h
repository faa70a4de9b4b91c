// Memory budget of a session's shards.
#pragma once

#include <cstdint>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Physical memory in bytes; 0 if the system does not report it.
uint64_t machine_memory();
// Half of machine_memory(); 4 GiB if the system does not report it.
uint64_t default_session_memory();

// Bytes that a session needs in addition to the program and the shards.
struct SessionParts {
  // All caches, and two f32 copies of the largest cache while a step reads and writes it.
  uint64_t caches = 0;
  // Two edges, and three copies of a chunk's logits: graph output, collected, returned.
  uint64_t rows = 0;
};

// The caches of a session: one set per sequence, and the storage of keys and values.
struct SessionCaches {
  int64_t sequences = 1;
  DType dtype = DType::f32;  // SessionOptions::cache_dtype
};
SessionParts parts_beside_shards(const Manifest& manifest, const SessionCaches& caches);

// Returns the bytes that remain for shards in a session of at most `memory` bytes. Error:
// session.memory (no bytes remain).
Result<uint64_t> room_for_shards(const Manifest& manifest, uint64_t memory,
                                 const SessionCaches& caches);

}  // namespace moec
