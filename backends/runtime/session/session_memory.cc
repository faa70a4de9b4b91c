#include "backends/runtime/session/session_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace moec {
namespace {

// Estimate for the program itself and for the graph file being read.
constexpr uint64_t kProgramBytes = uint64_t{48} << 20;

}  // namespace

SessionParts parts_beside_shards(const Manifest& manifest, int64_t sequences) {
  int64_t caches = 0, largest = 0;
  for (const manifest::Cache& cache : manifest.caches) {
    const int64_t elements = cache.kv_heads * cache.rows * (cache.head_dim + cache.value_dim) +
                             cache.history_tokens * cache.history_channels +
                             static_cast<int64_t>(state_elements(cache));
    caches += elements;
    largest = std::max(largest, elements);
  }
  // Each term is explained at SessionParts.
  const int64_t rows =
      manifest.build.tokens.back() * (3 * manifest.logits.vocab + 2 * manifest.model.hidden);
  return {static_cast<uint64_t>(sequences * caches + 2 * largest) * sizeof(float),
          static_cast<uint64_t>(rows) * sizeof(float)};
}

uint64_t machine_memory() {
  // sysconf() returns -1 for an unknown value.
  const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes) : 0;
}

uint64_t default_session_memory() {
  // Used if the system does not report its memory.
  constexpr uint64_t kUnknown = uint64_t{4} << 30;
  const uint64_t all = machine_memory();
  return all > 0 ? all / 2 : kUnknown;
}

Result<uint64_t> room_for_shards(const Manifest& manifest, uint64_t memory, int64_t sequences) {
  const SessionParts parts = parts_beside_shards(manifest, sequences);
  const uint64_t beside = kProgramBytes + parts.caches + parts.rows;
  if (beside < memory) return memory - beside;
  return fail("session.memory",
              fmt::format("the program, its caches and logits need {} MiB, the limit is {} MiB",
                          beside >> 20, memory >> 20),
              "pass a larger --memory, or export with a smaller --context");
}

}  // namespace moec
