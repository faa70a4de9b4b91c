#include "backends/runtime/session/session_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace moec {
namespace {

// Estimate for the program itself and for the graph file being read.
constexpr uint64_t kProgramBytes = uint64_t{48} << 20;

}  // namespace

SessionParts parts_beside_shards(const Manifest& manifest, const SessionCaches& caches) {
  constexpr int64_t kFloat = sizeof(float);
  int64_t stored = 0, largest = 0;  // bytes
  for (const manifest::Cache& cache : manifest.caches) {
    const int64_t rows = cache.kv_heads * cache.rows * (cache.head_dim + cache.value_dim);
    const int64_t states =
        cache.history_tokens * cache.history_channels + static_cast<int64_t>(state_elements(cache));
    stored += rows * dtype_bytes(caches.dtype) + states * kFloat;
    largest = std::max(largest, (rows + states) * kFloat);
  }
  // Each term is explained at SessionParts.
  const int64_t rows =
      manifest.build.tokens.back() * (3 * manifest.logits.vocab + 2 * manifest.model.hidden);
  return {static_cast<uint64_t>(caches.sequences * stored + 2 * largest),
          static_cast<uint64_t>(rows * kFloat)};
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

namespace {

// Bytes of caches that are proportional to the context.
uint64_t row_bytes(const Manifest& manifest, const SessionCaches& caches) {
  const auto fixed = [&] {
    Manifest without = manifest;
    for (manifest::Cache& cache : without.caches) cache.rows = 0;
    return parts_beside_shards(without, caches).caches;
  };
  return parts_beside_shards(manifest, caches).caches - fixed();
}

// Returns the next step of an error: changes after which a session, which needs that many bytes in
// addition to its shards, fits into `memory`.
std::string fitting(const Manifest& manifest, uint64_t beside, uint64_t memory,
                    const SessionCaches& caches) {
  std::string text = fmt::format("pass --memory {} or larger", (beside >> 20) + 1);
  const uint64_t rows = row_bytes(manifest, caches), fixed = beside - rows;
  if (rows == 0 || fixed >= memory) return text;
  if (caches.dtype == DType::f32) text += ", pass --cache-dtype f16";
  const auto context = static_cast<double>(manifest.build.context) *
                       static_cast<double>(memory - fixed - 1) / static_cast<double>(rows);
  return text + fmt::format(", or export with --context {} or less", static_cast<int64_t>(context));
}

}  // namespace

Result<uint64_t> room_for_shards(const Manifest& manifest, uint64_t memory,
                                 const SessionCaches& caches) {
  const SessionParts parts = parts_beside_shards(manifest, caches);
  const uint64_t beside = kProgramBytes + parts.caches + parts.rows;
  if (beside < memory) return memory - beside;
  return fail("session.memory",
              fmt::format("the program, its caches and logits need {} MiB, the limit is {} MiB",
                          beside >> 20, memory >> 20),
              fitting(manifest, beside, memory, caches));
}

}  // namespace moec
