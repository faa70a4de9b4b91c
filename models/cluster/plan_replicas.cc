#include "models/cluster/plan_replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/base/name_file.h"
#include "ir/base/regular_file.h"
#include "models/cluster/read_loads.h"
#include "models/plan/cut_shards.h"

namespace moec {
namespace {

double imbalance_of(const std::vector<double>& loads) {
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  if (sum == 0) return 1;
  return *std::max_element(loads.begin(), loads.end()) * static_cast<double>(loads.size()) / sum;
}

// The number of experts in each group of a layer: 1 where the layer is not cut.
std::vector<int64_t> copied_groups(const Plan& plan) {
  const int64_t experts = plan.model.moe.experts;
  return plan.build.host_routing ? expert_groups(experts, plan.build)
                                 : std::vector<int64_t>(static_cast<size_t>(experts), 1);
}

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
    for (size_t slot = 0; slot < layer.balance.expert_of.size(); ++slot)
      held[layer.balance.device_of(slot, devices)].push_back(layer.balance.expert_of[slot]);
  }
  return copies;
}

Result<ReplicaPlan> plan_replicas(const Plan& plan, int64_t devices, const std::string& load_file,
                                  int64_t replicas) {
  if (!plan.build.experts.parts.empty())
    return fail("plan.replicas", "--expert-groups says already which experts are replicated",
                "leave out --loads, or --expert-groups", {.file = load_file});
  MOEC_ASSIGN(const std::string text, read_user_text(load_file, "loads.file"));
  MOEC_ASSIGN(const ExpertLoads loads, parse_expert_loads(text, load_file, plan.model));
  const std::vector<int64_t> groups = copied_groups(plan);
  ReplicaPlan result;
  result.groups = std::ssize(groups);
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

}  // namespace moec
