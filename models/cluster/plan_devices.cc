#include "models/cluster/plan_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/base/name_file.h"
#include "ir/base/regular_file.h"
#include "models/cluster/read_loads.h"
#include "models/plan/cut_shards.h"

namespace moec {

namespace {

// Returns the largest load relative to the mean; 1 if all loads are 0.
double imbalance_of(const std::vector<double>& loads) {
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  if (sum == 0) return 1;
  return *std::max_element(loads.begin(), loads.end()) * static_cast<double>(loads.size()) / sum;
}

// The number of experts in each group of a layer: 1 if the layer is not cut.
std::vector<int64_t> copied_groups(const Plan& plan) {
  const int64_t experts = plan.model.moe.experts;
  return plan.build.host_routing ? expert_groups(experts, plan.build)
                                 : std::vector<int64_t>(static_cast<size_t>(experts), 1);
}

// Returns the load of each group. Groups are runs of consecutive experts.
std::vector<double> sums(const std::vector<double>& loads, const std::vector<int64_t>& groups) {
  std::vector<double> sums;
  auto next = loads.begin();
  for (const int64_t group : groups) {
    sums.push_back(std::accumulate(next, next + group, 0.0));
    next += group;
  }
  return sums;
}

}  // namespace

double ReplicaPlan::worst_imbalance() const {
  double worst = 1;
  for (const LayerReplicas& layer : layers) worst = std::max(worst, layer.imbalance);
  return worst;
}

GroupCopies ReplicaPlan::copies(int64_t devices) const {
  GroupCopies copies;
  for (const LayerReplicas& layer : layers) {
    auto& held = copies[layer.layer];
    held.resize(static_cast<size_t>(devices));
    // Here, a slot contains a group: plan_replicas() balances groups instead of experts.
    for (size_t slot = 0; slot < layer.balance.expert_of.size(); ++slot)
      held[layer.balance.device_of(slot, devices)].push_back(layer.balance.expert_of[slot]);
  }
  return copies;
}

Result<ReplicaPlan> plan_replicas(const Plan& plan, int64_t devices, const std::string& load_file,
                                  int64_t replicas) {
  if (!plan.build.experts.parts.empty())
    return fail("plan.replicas",
                "--loads conflicts with --expert-groups, which also defines copies",
                "omit --loads or --expert-groups", {.file = load_file});
  MOEC_ASSIGN(const std::string text, read_user_text(load_file, "loads.file"));
  MOEC_ASSIGN(const ExpertLoads loads, parse_expert_loads(text, load_file, plan.model));
  const std::vector<int64_t> groups = copied_groups(plan);
  ReplicaPlan result;
  result.groups = std::ssize(groups);
  // The default is the smallest number of copies that divides evenly among the devices.
  result.replicas = replicas > 0 ? replicas : (result.groups + devices - 1) / devices * devices;
  for (const auto& [layer, experts] : loads) {
    const std::vector<double> by_group = sums(experts, groups);
    MOEC_ASSIGN(
        ExpertBalance balance,
        naming_file(balance_experts(by_group, {.replicas = result.replicas, .devices = devices}),
                    load_file));
    const double imbalance = imbalance_of(device_loads(by_group, balance, devices));
    result.layers.push_back({layer, std::move(balance), imbalance});
  }
  return result;
}

namespace {

constexpr size_t kTables = 0;  // index of the unit with the tables

DeviceUnit unit_of(const Plan& plan, const std::vector<ShardSize>& sizes, size_t i) {
  const ShardDecl& shard = plan.shards[i];
  const int64_t weights = sizes[i].weight_bytes;
  return {.name = shard.name,
          .layer = shard.layer,
          .bytes = weights + sizes[i].cache_bytes,
          .peak_bytes = sizes[i].peak_activation_bytes,
          .token_bytes = chance_to_run(plan, i) * static_cast<double>(weights),
          .expert_bytes = is_whole_moe(shard.kind) ? sizes[i].expert_bytes : 0,
          .macs = sizes[i].macs,
          .macs_active = sizes[i].macs_active};
}

// Appends a whole MoE layer as several units: each expert, and the rest of the shard.
void split_experts(const Plan& plan, DeviceUnit shard, std::vector<DeviceUnit>& units) {
  const MoeConfig& moe = plan.model.moe;
  // Probability that a token chooses a given expert if all experts are equally likely.
  const double chosen = static_cast<double>(moe.routing.top_k) / static_cast<double>(moe.experts);
  // The remainder of the division stays in `shard`.
  const int64_t each = shard.expert_bytes / moe.experts;
  shard.bytes -= moe.experts * each;
  shard.expert_bytes = 0;
  shard.token_bytes -= static_cast<double>(moe.experts * each);
  units.push_back(shard);
  for (int64_t e = 0; e < moe.experts; ++e)
    units.push_back({.name = fmt::format("{}.expert{}", shard.name, e),
                     .layer = shard.layer,
                     .group = e,
                     .bytes = each,
                     .token_bytes = chosen * static_cast<double>(each)});
}

std::vector<DeviceUnit> units_of(const Plan& plan, const std::vector<ShardSize>& sizes,
                                 const PlanReport& report, bool each_expert) {
  std::vector<DeviceUnit> units;
  units.push_back({.name = "tables", .bytes = report.embedding_bytes + report.rope_bytes});
  int64_t group = 0;  // all slices of a group have its number
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const ShardDecl& shard = plan.shards[i];
    DeviceUnit unit = unit_of(plan, sizes, i);
    if (is_expert_group(shard.kind)) {
      // The first group of a layer contains expert 0, so `group` restarts there. Only the first
      // slice of a group increases `group`.
      if (shard.first_expert == 0)
        group = 0;
      else if (shard.slice == 0)
        ++group;
      unit.group = group;
    }
    if (is_whole_moe(shard.kind) && each_expert)
      split_experts(plan, std::move(unit), units);
    else
      units.push_back(std::move(unit));
  }
  return units;
}

}  // namespace

std::vector<std::string> DevicePlan::shards_of(size_t device) const {
  std::vector<size_t> held = loads[device].units;
  // Restores the order of the plan, because spread_experts() assigns expert groups by size.
  std::sort(held.begin(), held.end());
  std::vector<std::string> names;
  for (const size_t unit : held)
    if (unit != kTables) names.push_back(units[unit].name);
  return names;
}

Result<DevicePlan> plan_devices(const Plan& plan, const std::vector<ShardSize>& sizes,
                                const PlanReport& report, DeviceOptions options) {
  const bool balanced = !options.loads.empty();
  DevicePlan result{
      std::move(options.devices), options.trunk, units_of(plan, sizes, report, balanced), {}, {}};
  if (!balanced) {
    MOEC_ASSIGN(result.loads, assign_devices(result.units, result.devices, options.trunk));
    return result;
  }
  // assign_copies() places the trunk on every device.
  result.trunk = TrunkPlacement::replicated;
  const auto count = std::ssize(result.devices);
  MOEC_ASSIGN(result.replicas, plan_replicas(plan, count, options.loads, options.replicas));
  MOEC_ASSIGN(result.loads,
              assign_copies(result.units, result.devices, result.replicas->copies(count)));
  return result;
}

}  // namespace moec
