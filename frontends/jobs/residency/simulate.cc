#include "frontends/jobs/residency/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends/manifest/manifest_file.h"
#include "backends/residency/pinned_experts.h"

namespace moec {
namespace {

std::optional<PolicyKind> kind_of(SimulatedPolicy policy) {
  return parse_enum<PolicyKind>(enum_name(policy));
}

Status check_trace_profile(const ExpertProfile& profile, const Simulation& trace,
                           const std::vector<TraceRow>& rows, const std::string& file) {
  const bool fits = std::all_of(rows.begin(), rows.end(), [&](const TraceRow& row) {
    return row.expert < profile.experts && find_layer(profile, row.layer) != nullptr;
  });
  if (fits) return {};
  return fail("simulate.profile",
              fmt::format("the profile has {} layers of {} experts; the trace names others, of {} "
                          "layers with {} experts or more",
                          profile.layers.size(), profile.experts, trace.layers, trace.experts),
              "give the profile of the same model", {.file = file});
}

// Of the experts' own weights: a shard may hold a router, norms and shared experts as well.
int64_t expert_bytes_in(const manifest::Shard& shard) {
  int64_t bytes = 0;
  for (const WeightRecord& weight : shard.weights)
    if (weight.role == WeightRole::expert)
      for (const WeightRange& range : weight.ranges) bytes += range.bytes;
  return bytes;
}

// The mean of the experts of all shards that hold experts of one layer.
Result<int64_t> expert_bytes_of(const std::string& folder) {
  MOEC_ASSIGN(const Manifest manifest, read_manifest(folder));
  int64_t bytes = 0, experts = 0;
  for (const manifest::Shard& shard : manifest.shards) {
    if (holds_whole_layers(shard.kind) || shard.experts == 0) continue;
    bytes += expert_bytes_in(shard);
    experts += shard.slice == 0 ? shard.experts : 0;
  }
  if (experts > 0 && bytes > 0) return bytes / experts;
  return fail("simulate.expert_bytes", "the export has no shards that hold experts of one layer",
              "give --expert-bytes", {.file = folder});
}

class TraceSimulator {
 public:
  TraceSimulator(const std::vector<TraceRow>& rows, const SimulatedCache& cache)
      : steps_(cache_steps(rows, cache.tokens)) {
    std::set<int32_t> layers;
    for (const TraceRow& row : rows) {
      layers.insert(row.layer);
      result_.experts = std::max<int64_t>(result_.experts, row.expert + 1);
    }
    result_.layers = std::ssize(layers);
    result_.tokens = int64_t{rows.back().token} + 1;
    result_.largest_step = largest_step(steps_);
    result_.cache = cache;
  }

  Result<Simulation> run(const std::vector<TraceRow>& rows) {
    MOEC_TRY(choose_policies(rows));
    MOEC_TRY(choose_capacities());
    for (const int64_t slots : result_.cache.capacities)
      for (const SimulatedPolicy policy : result_.cache.policies) {
        MOEC_ASSIGN(const SimulatedPoint point, simulate(policy, slots));
        result_.points.push_back(point);
      }
    return std::move(result_);
  }

 private:
  Status choose_policies(const std::vector<TraceRow>& rows) {
    SimulatedCache& cache = result_.cache;
    if (cache.policies.empty())
      for (const std::string_view name : enum_names(SimulatedPolicy{}))
        if (name != "pinned" || !cache.profile.empty())
          cache.policies.push_back(*parse_enum<SimulatedPolicy>(name));
    const auto& policies = cache.policies;
    const bool pins =
        std::find(policies.begin(), policies.end(), SimulatedPolicy::pinned) != policies.end();
    if (!pins) return {};
    if (cache.profile.empty())
      return fail("simulate.profile", "the policy pinned needs a profile of what is pinned",
                  "give --profile, which moec analyze or moec discover writes");
    MOEC_ASSIGN(profile_, read_expert_profile(cache.profile));
    return check_trace_profile(profile_, result_, rows, cache.profile);
  }

  Status choose_capacities() {
    auto& capacities = result_.cache.capacities;
    if (capacities.empty())
      for (int64_t slots = result_.largest_step; slots <= result_.experts; ++slots)
        capacities.push_back(slots);
    std::sort(capacities.begin(), capacities.end());
    capacities.erase(std::unique(capacities.begin(), capacities.end()), capacities.end());
    if (capacities.front() >= result_.largest_step) return {};
    return fail("simulate.capacity",
                fmt::format("a step needs {} experts of a layer, {} slots cannot hold them",
                            result_.largest_step, capacities.front()),
                fmt::format("give {} or more, or fewer --step-tokens", result_.largest_step));
  }

  Result<SimulatedPoint> simulate(SimulatedPolicy policy, int64_t slots) const {
    SimulatedPoint point{policy, slots, {}, {}};
    const SimulatedCache& cache = result_.cache;
    const CacheSlots of{cache.pool ? slots * result_.layers : slots, cache.pool};
    const auto kind = kind_of(policy);
    if (!kind) {
      MOEC_ASSIGN(point.counts, simulate_belady(steps_, of));
      return point;
    }
    std::vector<ExpertId> pinned;
    if (policy == SimulatedPolicy::pinned) {
      const int64_t wanted = cache.pin_top_k > 0 ? cache.pin_top_k : slots / 2;
      pinned = most_chosen(profile_, std::min(wanted, slots - result_.largest_step));
    }
    MOEC_ASSIGN(point.counts, simulate_policy(steps_, *kind, of, pinned,
                                              cache.tokens == 1 ? &point.changes : nullptr));
    return point;
  }

  std::vector<CacheStep> steps_;
  ExpertProfile profile_;
  Simulation result_;
};

}  // namespace

Result<Simulation> simulate_rows(const std::vector<TraceRow>& rows, const SimulatedCache& cache,
                                 std::optional<int64_t> expert_bytes) {
  MOEC_ASSIGN(Simulation simulation, TraceSimulator(rows, cache).run(rows));
  simulation.expert_bytes = expert_bytes;
  return simulation;
}

Result<Simulation> simulate_trace(const SimulateOptions& options) {
  std::optional<int64_t> bytes = options.expert_bytes;
  if (!options.exported.empty()) {
    MOEC_ASSIGN(bytes, expert_bytes_of(options.exported));
  }
  MOEC_ASSIGN(const std::vector<TraceRow> rows, read_trace(options.trace));
  return simulate_rows(rows, options.cache, bytes);
}

}  // namespace moec
