// The job of `moec simulate`: what caches of experts would do with a trace.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/residency/cache_steps.h"
#include "ir/base/enum_table.h"
#include "ir/experts/expert_profile.h"

namespace moec {

// The policies (expert_policy.h), and the best that any of them could do.
enum class SimulatedPolicy : uint8_t { lcp, lru, lfu, pinned, belady };
constexpr auto enum_names(SimulatedPolicy) {
  return name_table<SimulatedPolicy>({"lcp", "lru", "lfu", "pinned", "belady"});
}

// How a cache is simulated.
struct SimulatedCache {
  std::vector<int64_t> capacities;        // slots of each layer; empty: all that make a difference
  std::vector<SimulatedPolicy> policies;  // empty: all; pinned with a profile only
  bool pool = false;      // the slots of all layers together are shared by all layers
  int64_t tokens = 1;     // of a step
  int64_t pin_top_k = 0;  // experts of each layer that are pinned; 0: as many as half of the slots
  std::string profile;    // of what is pinned; empty: none
};

struct SimulateOptions {
  std::string trace;
  SimulatedCache cache;
  std::optional<int64_t> expert_bytes;
  std::string exported;  // a folder to take the bytes of an expert from; empty: none
};

struct SimulatedPoint {
  SimulatedPolicy policy = SimulatedPolicy::lru;
  int64_t slots = 0;  // of each layer
  CacheCounts counts;
  std::vector<DomainChange> changes;  // of a policy, with steps of one token
};

struct Simulation {
  int64_t layers = 0, experts = 0, tokens = 0;
  int64_t largest_step = 0;  // experts of a layer that one step needs
  SimulatedCache cache;
  std::optional<int64_t> expert_bytes;  // the mean of the experts
  std::vector<SimulatedPoint> points;   // by slots, then policy
};

// Simulates all policies at all capacities, each with a cache that is empty at first. Pinned
// experts are pinned as far as the slots leave room for a step. Errors: those of read_trace(),
// read_expert_profile(), read_manifest(); simulate.capacity (below what one step needs),
// simulate.profile (pinned without a profile, or one of another model), simulate.expert_bytes (the
// export has no shards of experts alone).
Result<Simulation> simulate_trace(const SimulateOptions& options);
// The same of rows that are there.
Result<Simulation> simulate_rows(const std::vector<TraceRow>& rows, const SimulatedCache& cache,
                                 std::optional<int64_t> expert_bytes);

// A table of hit rates and, where the bytes of an expert are known, one of bytes read a token.
std::string simulation_table(const Simulation& simulation);
// Curves of the hit rates over the slots.
std::string simulation_svg(const Simulation& simulation);
nlohmann::ordered_json simulation_json(const Simulation& simulation);

}  // namespace moec
