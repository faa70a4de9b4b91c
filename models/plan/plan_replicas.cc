#include "models/plan/plan_replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "frontends/hf/open_source.h"
#include "models/plan/cut_shards.h"
#include "models/plan/expert_loads.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

double imbalance_of(const std::vector<double>& loads) {
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  if (sum == 0) return 1;
  return *std::max_element(loads.begin(), loads.end()) * static_cast<double>(loads.size()) / sum;
}

// The experts of each group of a layer; single experts where it is not cut.
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
  MOEC_ASSIGN(const std::string text, read_user_text(load_file, "loads.file"));
  MOEC_ASSIGN(const ExpertLoads loads, parse_expert_loads(text, load_file, plan.model));
  const std::vector<int64_t> groups = copied_groups(plan);
  ReplicaPlan result;
  result.groups = static_cast<int64_t>(groups.size());
  result.replicas = replicas > 0 ? replicas : (result.groups + devices - 1) / devices * devices;
  for (const auto& [layer, experts] : loads) {
    const std::vector<double> by_group = sums(experts, groups);
    MOEC_ASSIGN(ExpertBalance balance,
                balance_experts(by_group, {.replicas = result.replicas, .devices = devices}));
    const double imbalance = imbalance_of(device_loads(by_group, balance, devices));
    result.layers.push_back({layer, std::move(balance), imbalance});
  }
  return result;
}

void print_replicas(const ReplicaPlan& plan) {
  fmt::print(
      "replicas: {} of the {} groups of experts of a layer; the busiest device has at most {:.3f} "
      "times the mean load\n",
      plan.replicas, plan.groups, plan.worst_imbalance());
}

ordered_json replicas_json(const ReplicaPlan& plan) {
  auto layers = ordered_json::array();
  for (const LayerReplicas& layer : plan.layers)
    layers.push_back({{"layer", layer.layer},
                      {"group_of_slot", layer.balance.expert_of},
                      {"imbalance", layer.imbalance}});
  return {{"groups", plan.groups},
          {"replicas", plan.replicas},
          {"worst_imbalance", plan.worst_imbalance()},
          {"layers", layers}};
}

}  // namespace moec
