// `moec simulate`: simulates caches of experts on a trace.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/residency/cache_steps.h"
#include "ir/base/enum_table.h"
#include "ir/experts/expert_profile.h"

namespace moec {

// The policies (expert_policy.h), and the offline optimum (belady).
enum class SimulatedPolicy : uint8_t { lcp, lru, lfu, pinned, belady };
constexpr auto enum_names(SimulatedPolicy) {
  return name_table<SimulatedPolicy>({"lcp", "lru", "lfu", "pinned", "belady"});
}

// Configuration of simulated caches.
struct SimulatedCache {
  std::vector<int64_t>
      capacities;  // slots per layer; empty: from one step's need up to all experts
  std::vector<SimulatedPolicy> policies;  // empty: all; pinned only with a profile
  bool pool = false;                      // all layers share one pool of slots
  int64_t tokens = 1;                     // tokens per step
  int64_t pin_top_k = 0;                  // pinned experts per layer; 0: half of the slots
  std::string profile;                    // selects the pinned experts; empty: none
};

// Receives the simulated points since its previous call, their total, and the policy of the last
// one. May be empty.
using SimulationProgress =
    std::function<void(uint64_t points, uint64_t total, const std::string& policy)>;

struct SimulateOptions {
  std::string trace;
  SimulatedCache cache;
  std::optional<int64_t> expert_bytes;
  std::string exported;  // export from which to compute the bytes of an expert; empty: none
  SimulationProgress progress;
};

struct SimulatedPoint {
  SimulatedPolicy policy = SimulatedPolicy::lru;
  int64_t slots = 0;  // per layer
  CacheCounts counts;
  std::vector<DomainChange> changes;  // measured with steps of one token only
};

struct Simulation {
  int64_t layers = 0, experts = 0, tokens = 0;
  int64_t largest_step = 0;  // maximum number of a layer's experts in one step
  SimulatedCache cache;
  std::optional<int64_t> expert_bytes;  // mean over experts
  std::vector<SimulatedPoint> points;   // by slots, then policy
};

// Simulates all policies at all capacities, each with an initially empty cache. Pins at most as
// many experts as leave enough slots for a step. Errors: those of read_trace(),
// read_expert_profile(), read_manifest(); simulate.capacity (fewer slots than one step needs),
// simulate.profile (pinned without a profile, or with the profile of another model);
// simulate.expert_bytes (the export has no shards with experts of a single layer).
Result<Simulation> simulate_trace(const SimulateOptions& options);
// The same for the rows of a trace in memory.
Result<Simulation> simulate_rows(const std::vector<TraceRow>& rows, const SimulatedCache& cache,
                                 std::optional<int64_t> expert_bytes,
                                 const SimulationProgress& progress = {});

// A table of hit rates and, if the bytes of an expert are known, of bytes read per token.
std::string simulation_table(const Simulation& simulation);
// Plots hit rates over slots.
std::string simulation_svg(const Simulation& simulation);
nlohmann::ordered_json simulation_json(const Simulation& simulation);

}  // namespace moec
