// How much memory a session leaves for its shards.
#pragma once

#include <cstdint>

#include "backends/manifest/manifest.h"
#include "backends/runtime/loaded_shards.h"

namespace moec {

// Half of the machine's memory.
uint64_t default_session_memory();

// The room for the shards of a session that may take `memory` bytes in all and keeps the caches of
// so many sequences. Error session.memory: what it takes besides leaves none.
Result<LoadedShards> room_for_shards(const Manifest& manifest, uint64_t memory, int64_t sequences);

}  // namespace moec
