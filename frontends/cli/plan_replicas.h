// Copies of busy experts on several devices, from measured loads.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ir/plan.h"
#include "models/assign_devices.h"
#include "models/balance_experts.h"
#include "models/plan_report.h"

namespace moec {

struct LayerReplicas {
  int64_t layer = 0;
  ExpertBalance balance;
  double imbalance = 0;  // load of the busiest device / mean over devices
};

struct ReplicaPlan {
  int64_t replicas = 0;  // of each layer's experts, the experts themselves included
  std::vector<LayerReplicas> layers;
  int64_t device_bytes = 0;  // of each device: trunk, tables, cache, activations, its slots
  double worst_imbalance() const;
};

// Places the experts of each MoE layer on the devices by the loads in the file
// (models/expert_loads.h, models/balance_experts.h); each device has the whole trunk. `replicas` 0:
// as few as give each device the same number of slots.
// Errors: loads.*, balance.*, file errors; plan.devices where a device is too small.
Result<ReplicaPlan> plan_replicas(const Plan& plan, const PlanReport& report,
                                  const std::vector<Device>& devices, const std::string& load_file,
                                  int64_t replicas);

void print_replicas(const ReplicaPlan& plan);
nlohmann::ordered_json replicas_json(const ReplicaPlan& plan);

}  // namespace moec
