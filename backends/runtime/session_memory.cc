#include "backends/runtime/session_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace moec {
namespace {

// The program itself, and the graph file that is being read.
constexpr uint64_t kProgramBytes = uint64_t{48} << 20;

// What a session takes besides its shards: the caches of its sequences, two copies of the largest
// one while a step reads and writes it, the logits of a chunk as the head gives them, as they are
// collected and as they are returned, and the rows of two edges.
uint64_t bytes_beside_shards(const Manifest& manifest, int64_t sequences) {
  int64_t caches = 0, largest = 0;
  for (const manifest::Cache& cache : manifest.caches) {
    const int64_t elements = cache.kv_heads * cache.rows * (cache.head_dim + cache.value_dim) +
                             cache.history_tokens * cache.history_channels;
    caches += elements;
    largest = std::max(largest, elements);
  }
  const int64_t rows =
      manifest.build.tokens.back() * (3 * manifest.logits.vocab + 2 * manifest.model.hidden);
  return kProgramBytes +
         static_cast<uint64_t>(sequences * caches + 2 * largest + rows) * sizeof(float);
}

}  // namespace

uint64_t default_session_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  constexpr uint64_t kUnknown = uint64_t{4} << 30;
  return pages > 0 && bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes) / 2
                                : kUnknown;
}

Result<LoadedShards> room_for_shards(const Manifest& manifest, uint64_t memory, int64_t sequences) {
  const uint64_t beside = bytes_beside_shards(manifest, sequences);
  if (beside < memory) return LoadedShards(memory - beside);
  return fail("session.memory",
              fmt::format("the program, its caches and logits take {} MiB, the limit is {} MiB",
                          beside >> 20, memory >> 20),
              "give more --memory, or export with a smaller --context");
}

}  // namespace moec
