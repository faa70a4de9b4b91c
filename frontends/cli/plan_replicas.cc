#include "frontends/cli/plan_replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "frontends/cli/open_source.h"
#include "frontends/cli/plan_output.h"
#include "models/expert_loads.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

double imbalance_of(const std::vector<double>& loads) {
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  if (sum == 0) return 1;
  return *std::max_element(loads.begin(), loads.end()) * static_cast<double>(loads.size()) / sum;
}

Status check_room(const std::vector<Device>& devices, int64_t needed) {
  for (const Device& device : devices)
    if (device.bytes < needed)
      return fail(
          "plan.devices",
          fmt::format("device {} lacks {} bytes: the trunk and its copies of experts need {}",
                      device.name, needed - device.bytes, decimal_bytes(needed)),
          "give fewer --replicas, or further devices");
  return {};
}

}  // namespace

double ReplicaPlan::worst_imbalance() const {
  double worst = 1;
  for (const LayerReplicas& layer : layers) worst = std::max(worst, layer.imbalance);
  return worst;
}

Result<ReplicaPlan> plan_replicas(const Plan& plan, const PlanReport& report,
                                  const std::vector<Device>& devices, const std::string& load_file,
                                  int64_t replicas) {
  const auto count = static_cast<int64_t>(devices.size());
  const MoeConfig& moe = plan.model.moe;
  MOEC_ASSIGN(const std::string text, read_user_text(load_file, "loads.file"));
  MOEC_ASSIGN(const ExpertLoads loads, parse_expert_loads(text, load_file, plan.model));
  ReplicaPlan result;
  result.replicas = replicas > 0 ? replicas : (moe.experts + count - 1) / count * count;
  for (const auto& [layer, experts] : loads) {
    MOEC_ASSIGN(ExpertBalance balance,
                balance_experts(experts, {.replicas = result.replicas, .devices = count}));
    const double imbalance = imbalance_of(device_loads(experts, balance, count));
    result.layers.push_back({layer, std::move(balance), imbalance});
  }
  int64_t peak = 0;
  for (const KindReport& kind : report.kinds) peak = std::max(peak, kind.peak_activation_bytes);
  result.device_bytes =
      report.total_bytes() - report.expert_total_bytes + peak +
      static_cast<int64_t>(loads.size()) * (result.replicas / count) * report.expert_bytes;
  MOEC_TRY(check_room(devices, result.device_bytes));
  return result;
}

void print_replicas(const ReplicaPlan& plan) {
  fmt::print(
      "\nreplicas: {} a layer, {} on each device; the busiest device has at most {:.3f} "
      "times the mean load\n",
      plan.replicas, decimal_bytes(plan.device_bytes), plan.worst_imbalance());
}

ordered_json replicas_json(const ReplicaPlan& plan) {
  auto layers = ordered_json::array();
  for (const LayerReplicas& layer : plan.layers)
    layers.push_back({{"layer", layer.layer},
                      {"expert_of_slot", layer.balance.expert_of},
                      {"imbalance", layer.imbalance}});
  return {{"replicas", plan.replicas},
          {"device_bytes", plan.device_bytes},
          {"worst_imbalance", plan.worst_imbalance()},
          {"layers", layers}};
}

}  // namespace moec
