// Cache steps of a trace, and simulation of policies on these steps, including the optimum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/residency/expert_cache.h"
#include "backends/residency/expert_trace.h"
#include "backends/residency/hit_window.h"

namespace moec {

// One layer's work for one token or a chunk of tokens.
struct CacheStep {
  int64_t step = 0;  // number of the chunk, shared by its layers
  int64_t layer = 0;
  std::vector<int64_t> experts;  // ascending
  bool operator==(const CacheStep&) const = default;
};

// Returns the steps of sorted rows with `tokens` tokens per step, in execution order: by chunk,
// then layer.
std::vector<CacheStep> cache_steps(std::span<const TraceRow> rows, int64_t tokens);

// Maximum number of experts in a step; a cache needs at least this many slots.
int64_t largest_step(std::span<const CacheStep> steps);

// Result of simulating a cache on a trace. Each expert that a step needs is one use: a hit or a
// load.
struct CacheCounts {
  int64_t uses = 0, loads = 0;
  int64_t first_uses = 0;  // first use of each expert: no policy avoids this load
  int64_t hits() const { return uses - loads; }
  double hit_rate() const;   // hits / uses
  double warm_rate() const;  // hits / uses that are not first uses; 1 if there are none
  bool operator==(const CacheCounts&) const = default;
};

// Simulates a policy. `changes`, if not null, receives the domain changes that the hits indicate
// (hit_window.h); it requires steps of one token. Pins do not change. Errors: those of
// ExpertCache::use().
Result<CacheCounts> simulate_policy(std::span<const CacheStep> steps, PolicyKind kind,
                                    CacheSlots slots, std::span<const ExpertId> pinned,
                                    std::vector<DomainChange>* changes = nullptr);

// Simulates Belady's policy, which knows the future: evicts the expert with the farthest next use
// among those that the current step does not need. As with all policies, all experts of a step must
// be resident together. Among policies that load only misses, none loads less: of two candidates
// for eviction, keeping the one that is used later saves no load, neither before nor after the
// other one is used. Error: residency.slots.
Result<CacheCounts> simulate_belady(std::span<const CacheStep> steps, CacheSlots slots);

}  // namespace moec
