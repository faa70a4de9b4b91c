#include "frontends/jobs/plan/place_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "ir/model/model_experts.h"
#include "models/cluster/kl_curves.h"

namespace moec {
namespace {

// Plans one device with enough memory for everything, and each MoE layer as a single shard. This is
// valid because the cut and the routing do not change the bytes of weights.
PlanSourceOptions with_units(PlanSourceOptions options) {
  // A quarter of the range, so that sums of a few such sizes do not overflow.
  constexpr int64_t kRoomForAll = std::numeric_limits<int64_t>::max() / 4;
  options.devices = {};
  options.devices.devices = {{"all", kRoomForAll, 0}};
  options.request.cuts = {};
  // Host routing needs separate shards, which this plan merges.
  options.request.build.host_routing = false;
  if (options.passes.routing == RoutingForm::host) options.passes.routing = RoutingForm::rank;
  return options;
}

std::vector<double> kept_shares(const ExpertProfile& profile,
                                const std::vector<ExpertGroup>& groups) {
  std::vector<double> shares;
  for (const ExpertGroup& group : groups) {
    double sum = 0;
    // An unweighted mean: every MoE layer sees every token.
    for (const LayerProfile& layer : profile.layers) sum += kept_share(layer, group.experts);
    shares.push_back(sum / static_cast<double>(profile.layers.size()));
  }
  return shares;
}

// Returns nothing if the path is empty.
Result<std::optional<ExpertProfile>> read_profile(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return read_expert_profile(path);
}

Status check_options(const PlaceNodesOptions& options) {
  if (options.allow_uncovered && options.miss == NodeMiss::peer)
    return fail("place.uncovered", "peers cannot compute experts that are on no node",
                "omit --allow-uncovered, or pass --on-miss mask");
  if (options.kl_reports.empty()) return {};
  if (options.profile.empty())
    return fail("place.kl", "the KL of a class needs the class's use of experts",
                "pass --profile with the result of moec analyze");
  if (options.miss == NodeMiss::skip)
    return fail("place.kl", "reports of moec compare measure masked experts, not skipped ones",
                "omit --kl, or pass --on-miss mask");
  return {};
}

// ---- Running nodes -----------------------------------------------------------------------------

struct RunningNodes {
  std::vector<NodeGates> gates;
  std::vector<NodeGroup> groups;
};

Result<RunningNodes> ask_nodes(const std::vector<NodeServer>& servers, const GatesModel& model) {
  RunningNodes running;
  MOEC_ASSIGN(running.gates, fetch_gates(servers, model));
  MOEC_ASSIGN(running.groups, groups_of_servers(running.gates));
  return running;
}

// Completes a request that lacks the number of nodes or of copies: as many as are running.
Status complete_request(const RunningNodes& running, const ExpertGrid& grid, NodeRequest& request) {
  const auto groups = std::ssize(running.groups);
  if (request.stages != 1)
    return fail("place.servers",
                fmt::format("{} stages are requested, but servers run all layers", request.stages),
                "omit --stages, or place the experts with --profile");
  if (request.nodes == 0) request.nodes = groups;
  if (request.nodes < groups)
    return fail("place.servers",
                fmt::format("{} nodes are requested for {} groups of running servers",
                            request.nodes, groups),
                fmt::format("pass --nodes {} or more, or list fewer servers", groups));
  if (request.replicas == 0 && request.pool.empty())
    request.replicas = copies_of(running.groups, grid);
  return {};
}

std::vector<NodeCount> node_counts(const ModelCost& model, const ExpertGrid& grid,
                                   NodeRequest request, int64_t width) {
  std::vector<NodeCount> counts;
  request.nodes = 0;
  for (Result<ClusterPlan> plan = size_nodes(model, grid, request);
       plan && plan->nodes() <= request.pool.size(); plan = size_nodes(model, grid, request)) {
    const auto [least, most] = std::minmax_element(plan->slots.begin(), plan->slots.end());
    NodeCount count{plan->nodes(), *least, *most, 0, {}};
    const auto all = std::accumulate(plan->slots.begin(), plan->slots.end(), int64_t{0});
    count.copies = static_cast<double>(all) / static_cast<double>(grid.experts);
    const std::vector<double> speeds = masked_speeds(*plan, grid, width);
    if (!speeds.empty())
      count.tokens_per_second = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    counts.push_back(count);
    request.nodes = static_cast<int64_t>(plan->nodes()) + request.stages;
  }
  return counts;
}

Result<std::vector<ClassForecast>> forecast_classes(const PlacedNodes& placed,
                                                    const ExpertProfile* profile, int64_t width,
                                                    const std::vector<std::string>& kl_reports) {
  const std::vector<PromptClass> classes = prompt_classes(profile, placed.grid);
  MOEC_ASSIGN(const auto curves, read_kl_curves(kl_reports, classes, placed.grid));
  MOEC_ASSIGN(const auto forecasts, forecast_nodes(placed.nodes, placed.grid, placed.groups,
                                                   classes, {placed.miss, width}));
  std::vector<ClassForecast> result;
  for (size_t c = 0; c < classes.size(); ++c) {
    ClassForecast& own = result.emplace_back(ClassForecast{classes[c].name, forecasts[c], {}});
    const auto curve = curves.find(own.name);
    if (curve == curves.end()) continue;
    for (const GroupForecast& group : own.groups)
      own.kl.push_back(curve->second.at(1 - group.kept));
  }
  return result;
}

}  // namespace

Result<PlacedNodes> place_nodes(PlaceNodesOptions options) {
  MOEC_TRY(check_options(options));
  // Reads the profile while the model is planned: both take long for models with many experts.
  auto reading = std::async(std::launch::async, read_profile, options.profile);
  if (!options.cluster.empty()) {
    MOEC_ASSIGN(options.nodes.pool, read_cluster_nodes(options.cluster));
    options.nodes.choose = true;
  }
  MOEC_ASSIGN(const PlannedSource planned, plan_source(with_units(std::move(options.plan))));
  MOEC_ASSIGN(std::optional<ExpertProfile> profile, reading.get());
  const ModelConfig& model = planned.made.plan.model;
  PlacedNodes placed{.source = planned.source,
                     .family = model.family,
                     .grid = expert_grid(model),
                     .miss = options.miss};
  if (placed.grid.layers.empty())
    return fail("place.no_experts", "the model has no experts to place",
                "use moec plan --device to place the shards of a dense model",
                {.file = planned.source});
  if (profile) MOEC_TRY(check_profile(*profile, placed.grid, options.profile));
  // `measured.devices` is set, because with_units() plans one device.
  const ModelCost cost =
      cost_by_layer(planned.measured.devices->units, placed.grid, model.layers.size());
  RunningNodes running;
  if (!options.servers.empty()) {
    const GatesModel gates{placed.family, placed.grid};
    MOEC_ASSIGN(running, ask_nodes(options.servers, gates));
    MOEC_ASSIGN(profile, profile_of_gates(running.gates, running.groups, gates));
    MOEC_TRY(complete_request(running, placed.grid, options.nodes));
  }
  MOEC_ASSIGN(placed.nodes, size_nodes(cost, placed.grid, options.nodes));
  const std::vector<double> speeds = masked_speeds(placed.nodes, placed.grid, model.hidden);
  const ExpertProfile* known = profile ? &*profile : nullptr;
  // Without a profile, the placement uses memory alone.
  MOEC_ASSIGN(placed.groups, place_experts(known, placed.grid, placed.nodes.slots,
                                           {options.policy, speeds, options.allow_uncovered}));
  // Before the forecast, because it changes the order of the groups.
  if (!options.servers.empty()) {
    assign_sets(running.gates, running.groups, placed.grid, placed.nodes.slots, placed.groups);
    placed.change =
        change_of(running.gates, running.groups, placed.grid, cost.layers, placed.groups);
  }
  if (options.nodes.choose)
    placed.counts = node_counts(cost, placed.grid, options.nodes, model.hidden);
  if (profile || !speeds.empty()) {
    MOEC_ASSIGN(placed.classes, forecast_classes(placed, known, model.hidden, options.kl_reports));
  }
  if (!profile) return placed;
  MOEC_ASSIGN(const auto ranges,
              place_experts(nullptr, placed.grid, placed.nodes.slots, {PlacePolicy::contiguous}));
  placed.kept = kept_shares(*profile, placed.groups);
  // The groups have equal sizes, so the shares differ only by the choice of experts.
  placed.kept_by_ranges = kept_shares(*profile, ranges);
  return placed;
}

}  // namespace moec
