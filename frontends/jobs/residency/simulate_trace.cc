#include "frontends/jobs/residency/simulate_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends/manifest/manifest_file.h"
#include "backends/residency/pinned_experts.h"

namespace moec {
namespace {

std::optional<PolicyKind> kind_of(SimulatedPolicy policy) {
  // belady has no online policy of this name, so the result is empty for it.
  return parse_enum<PolicyKind>(enum_name(policy));
}

Status check_trace_profile(const ExpertProfile& profile, const Simulation& trace,
                           const std::vector<TraceRow>& rows, const std::string& file) {
  const bool fits = std::all_of(rows.begin(), rows.end(), [&](const TraceRow& row) {
    // A trace lists only picked experts, so a profile with more experts may still fit.
    return row.expert < profile.experts && find_layer(profile, row.layer) != nullptr;
  });
  if (fits) return {};
  return fail("simulate.profile",
              fmt::format("the profile has {} layers of {} experts, but the trace has {} layers "
                          "with at least {} experts",
                          profile.layers.size(), profile.experts, trace.layers, trace.experts),
              "pass a profile of the same model", {.file = file});
}

// Counts only the weights of routed experts, because a shard may also contain a router, norms and
// shared experts.
int64_t expert_bytes_in(const manifest::Shard& shard) {
  int64_t bytes = 0;
  for (const WeightRecord& weight : shard.weights)
    if (weight.role == WeightRole::expert)
      for (const WeightRange& range : weight.ranges) bytes += range.bytes;
  return bytes;
}

// Mean bytes per expert, over all shards with experts of a single layer.
Result<int64_t> expert_bytes_of(const std::string& folder) {
  MOEC_ASSIGN(const Manifest manifest, read_manifest(folder));
  int64_t bytes = 0, experts = 0;
  for (const manifest::Shard& shard : manifest.shards) {
    // Shards of whole layers may have experts of several layers.
    if (holds_whole_layers(shard.kind) || shard.experts == 0) continue;
    bytes += expert_bytes_in(shard);
    // Slices of an expert are separate shards; only the first one counts the expert.
    experts += shard.slice == 0 ? shard.experts : 0;
  }
  if (experts > 0 && bytes > 0) return bytes / experts;
  return fail("simulate.expert_bytes", "the export has no shards with experts of a single layer",
              "pass --expert-bytes", {.file = folder});
}

class TraceSimulator {
 public:
  // Groups the rows once, because all policies and capacities share the steps.
  TraceSimulator(const std::vector<TraceRow>& rows, const SimulatedCache& cache)
      : steps_(cache_steps(rows, cache.tokens)) {
    std::set<int32_t> layers;
    for (const TraceRow& row : rows) {
      layers.insert(row.layer);
      // A trace has no header with the model's sizes, so they are derived from the rows.
      result_.experts = std::max<int64_t>(result_.experts, row.expert + 1);
    }
    result_.layers = std::ssize(layers);
    // The rows are sorted by token, so the last one has the highest.
    result_.tokens = int64_t{rows.back().token} + 1;
    result_.largest_step = largest_step(steps_);
    result_.cache = cache;
  }

  Result<Simulation> run(const std::vector<TraceRow>& rows, const SimulationProgress& progress) {
    // Policies first: an unusable profile should fail before the simulation starts.
    MOEC_TRY(choose_policies(rows));
    MOEC_TRY(choose_capacities());
    const size_t total = result_.cache.capacities.size() * result_.cache.policies.size();
    for (const int64_t slots : result_.cache.capacities)
      for (const SimulatedPolicy policy : result_.cache.policies) {
        MOEC_ASSIGN(const SimulatedPoint point, simulate(policy, slots));
        result_.points.push_back(point);
        if (progress) progress(1, total, std::string(enum_name(policy)));
      }
    return std::move(result_);
  }

 private:
  Status choose_policies(const std::vector<TraceRow>& rows) {
    SimulatedCache& cache = result_.cache;
    if (cache.policies.empty())
      for (const std::string_view name : enum_names(SimulatedPolicy{}))
        // Without a profile, "pinned" would be an error that the user did not ask for.
        if (name != "pinned" || !cache.profile.empty())
          cache.policies.push_back(*parse_enum<SimulatedPolicy>(name));
    const auto& policies = cache.policies;
    const bool pins =
        std::find(policies.begin(), policies.end(), SimulatedPolicy::pinned) != policies.end();
    if (!pins) return {};
    if (cache.profile.empty())
      return fail("simulate.profile", "the policy pinned requires a profile",
                  "pass a --profile of moec analyze or moec discover");
    MOEC_ASSIGN(profile_, read_expert_profile(cache.profile));
    return check_trace_profile(profile_, result_, rows, cache.profile);
  }

  Status choose_capacities() {
    auto& capacities = result_.cache.capacities;
    if (capacities.empty())
      // Fewer slots than the largest step would fail, and more than all experts change nothing.
      for (int64_t slots = result_.largest_step; slots <= result_.experts; ++slots)
        capacities.push_back(slots);
    std::sort(capacities.begin(), capacities.end());
    // Repeated capacities would draw and list the same point twice.
    capacities.erase(std::unique(capacities.begin(), capacities.end()), capacities.end());
    // The capacities are sorted, so the first one is the smallest.
    if (capacities.front() >= result_.largest_step) return {};
    return fail(
        "simulate.capacity",
        fmt::format("a step needs {} experts of a layer, but there are {} slots",
                    result_.largest_step, capacities.front()),
        fmt::format("pass --capacity {} or more, or fewer --step-tokens", result_.largest_step));
  }

  Result<SimulatedPoint> simulate(SimulatedPolicy policy, int64_t slots) const {
    SimulatedPoint point{policy, slots, {}, {}};
    const SimulatedCache& cache = result_.cache;
    // A pool has the same total number of slots as separate caches.
    const CacheSlots of{cache.pool ? slots * result_.layers : slots, cache.pool};
    const auto kind = kind_of(policy);
    // Without an online policy, the offline optimum is computed.
    if (!kind) {
      MOEC_ASSIGN(point.counts, simulate_belady(steps_, of));
      return point;
    }
    std::vector<ExpertId> pinned;
    if (policy == SimulatedPolicy::pinned) {
      const int64_t wanted = cache.pin_top_k > 0 ? cache.pin_top_k : slots / 2;
      // Leaves enough slots for the largest step, because pinned experts are never evicted.
      pinned = most_chosen(profile_, std::min(wanted, slots - result_.largest_step));
    }
    // Changes of domain are defined on the hit rates of single tokens.
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
                                 std::optional<int64_t> expert_bytes,
                                 const SimulationProgress& progress) {
  MOEC_ASSIGN(Simulation simulation, TraceSimulator(rows, cache).run(rows, progress));
  simulation.expert_bytes = expert_bytes;
  return simulation;
}

Result<Simulation> simulate_trace(const SimulateOptions& options) {
  std::optional<int64_t> bytes = options.expert_bytes;
  if (!options.exported.empty()) {
    MOEC_ASSIGN(bytes, expert_bytes_of(options.exported));
  }
  MOEC_ASSIGN(const std::vector<TraceRow> rows, read_trace(options.trace));
  return simulate_rows(rows, options.cache, bytes, options.progress);
}

}  // namespace moec
