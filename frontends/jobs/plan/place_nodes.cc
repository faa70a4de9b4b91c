#include "frontends/jobs/plan/place_nodes.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ir/base/byte_text.h"
#include "ir/base/report_json.h"
#include "ir/model/model_experts.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

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

std::string node_name(const PlacedNodes& placed, size_t node) {
  const std::string& group = placed.groups[placed.nodes.group_of(node)].name;
  // Without stages, nodes are groups, and their names stay short.
  return placed.nodes.stages.size() == 1
             ? group
             : fmt::format("stage{}.{}", placed.nodes.stage_of(node), group);
}

ordered_json nodes_json(const PlacedNodes& placed) {
  auto nodes = ordered_json::array();
  for (size_t node = 0; node < placed.nodes.nodes(); ++node) {
    const size_t group = placed.nodes.group_of(node);
    ordered_json json = {{"name", node_name(placed, node)},
                         {"stage", placed.nodes.stage_of(node)},
                         {"group", placed.groups[group].name},
                         {"experts", placed.nodes.slots[group]},
                         {"bytes", placed.nodes.bytes(node)}};
    // 0 means that the memory of the node is not given.
    if (placed.nodes.memory[node] > 0) json["memory_bytes"] = placed.nodes.memory[node];
    if (!placed.kept.empty()) json["kept"] = placed.kept[group];
    nodes.push_back(std::move(json));
  }
  return nodes;
}

}  // namespace

Result<PlacedNodes> place_nodes(PlaceNodesOptions options) {
  std::optional<ExpertProfile> profile;
  // Reads the profile first, so that a wrong path fails before the model is planned.
  if (!options.profile.empty()) {
    MOEC_ASSIGN(profile, read_expert_profile(options.profile));
  }
  MOEC_ASSIGN(const PlannedSource planned, plan_source(with_units(std::move(options.plan))));
  const ModelConfig& model = planned.made.plan.model;
  PlacedNodes placed{planned.source, model.family, expert_grid(model), {}, {}, {}, {}};
  if (placed.grid.layers.empty())
    return fail("place.no_experts", "the model has no experts to place",
                "use moec plan --device to place the shards of a dense model",
                {.file = planned.source});
  if (profile) MOEC_TRY(check_profile(*profile, placed.grid, options.profile));
  // `measured.devices` is set, because with_units() plans one device.
  const ModelBytes bytes =
      bytes_by_layer(planned.measured.devices->units, placed.grid, model.layers.size());
  MOEC_ASSIGN(placed.nodes, size_nodes(bytes, placed.grid, options.nodes));
  const ExpertProfile* known = profile ? &*profile : nullptr;
  // Without a profile, the placement uses memory alone.
  MOEC_ASSIGN(placed.groups, place_experts(known, placed.grid, options.policy, placed.nodes.slots));
  if (!profile) return placed;
  MOEC_ASSIGN(const auto ranges,
              place_experts(nullptr, placed.grid, PlacePolicy::contiguous, placed.nodes.slots));
  placed.kept = kept_shares(*profile, placed.groups);
  // The groups have equal sizes, so the shares differ only by the choice of experts.
  placed.kept_by_ranges = kept_shares(*profile, ranges);
  return placed;
}

std::string placement_text(const PlacedNodes& placed) {
  auto stages = ordered_json::array(), groups = ordered_json::array();
  for (const Stage& stage : placed.nodes.stages)
    // Inclusive ranges, as `moec split --place` reads them.
    stages.push_back(fmt::format("{}-{}", stage.first, stage.last));
  for (const ExpertGroup& group : placed.groups)
    groups.push_back({{"name", group.name}, {"experts", to_string(group.experts)}});
  const ordered_json json = {{"format", "moec.placement"},  {"version", 1},
                             {"model", placed.family},      {"experts", placed.grid.experts},
                             {"top_k", placed.grid.top_k},  {"stages", std::move(stages)},
                             {"groups", std::move(groups)}, {"nodes", nodes_json(placed)}};
  return json_text(json, 1) + "\n";
}

std::string placement_table(const PlacedNodes& placed) {
  std::string text =
      fmt::format("{} ({}): {} MoE layers of {} experts, top-k {}\n\n", placed.source,
                  placed.family, placed.grid.layers.size(), placed.grid.experts, placed.grid.top_k);
  text += fmt::format("{:<16} {:>9} {:>8} {:>10}", "node", "layers", "experts", "bytes");
  if (!placed.kept.empty()) text += fmt::format(" {:>7} {:>10}", "kept", "as ranges");
  text += '\n';
  for (size_t node = 0; node < placed.nodes.nodes(); ++node) {
    const Stage& stage = placed.nodes.stages[placed.nodes.stage_of(node)];
    const size_t group = placed.nodes.group_of(node);
    text += fmt::format("{:<16} {:>9} {:>8} {:>10}", node_name(placed, node),
                        fmt::format("{}-{}", stage.first, stage.last), placed.nodes.slots[group],
                        decimal_bytes(placed.nodes.bytes(node)));
    if (!placed.kept.empty())
      text += fmt::format(" {:>5.1f} % {:>8.1f} %", 100 * placed.kept[group],
                          100 * placed.kept_by_ranges[group]);
    text += '\n';
  }
  if (placed.kept.empty())
    text +=
        "\nplaced by memory alone; pass a --profile of moec analyze to group experts that are "
        "picked together\n";
  if (!placed.kept.empty())
    text += "\nkept: share of the routing mass on the profile's text; lower on other texts\n";
  return text;
}

}  // namespace moec
