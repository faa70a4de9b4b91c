// The steps of a trace, as a cache of experts meets them, and what the best of all policies would
// load for them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/residency/expert_cache.h"
#include "backends/residency/expert_trace.h"
#include "backends/residency/hit_window.h"

namespace moec {

// One layer with one token or a chunk of tokens.
struct CacheStep {
  int64_t step = 0;  // that of the chunk's number; layers share it
  int64_t layer = 0;
  std::vector<int64_t> experts;  // ascending
  bool operator==(const CacheStep&) const = default;
};

// The steps of sorted rows, `tokens` tokens a step, in the order in which they run: chunk, layer.
std::vector<CacheStep> cache_steps(std::span<const TraceRow> rows, int64_t tokens);

// The most experts of a step. A cache needs as many slots.
int64_t largest_step(std::span<const CacheStep> steps);

// What a cache did with a trace. An expert that a step needs is one use, a hit or a load.
struct CacheCounts {
  int64_t uses = 0, loads = 0;
  int64_t first_uses = 0;  // of each expert the first one: no policy spares that load
  int64_t hits() const { return uses - loads; }
  double hit_rate() const;   // of all uses
  double warm_rate() const;  // of those that are no first use; 1 where there are none
  bool operator==(const CacheCounts&) const = default;
};

// What a policy does. With `changes`, of steps of one token: where the hits tell of another domain
// (hit_window.h); what is pinned stays. Errors: those of ExpertCache::use().
Result<CacheCounts> simulate_policy(std::span<const CacheStep> steps, PolicyKind kind,
                                    CacheSlots slots, std::span<const ExpertId> pinned,
                                    std::vector<DomainChange>* changes = nullptr);

// What Belady's policy does, which knows the future: where an expert has to leave, it is the one
// whose next use is the farthest, of those that the step under way does not need. All experts of a
// step have to be resident together, as with all policies. No policy that loads what a step misses
// and nothing else loads less: of two experts that may leave, keeping the one that is used later
// saves no load before the other one is used, nor behind it. Error residency.slots.
Result<CacheCounts> simulate_belady(std::span<const CacheStep> steps, CacheSlots slots);

}  // namespace moec
