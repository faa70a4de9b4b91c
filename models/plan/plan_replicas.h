// Copies of busy experts on several devices, from measured loads.
#pragma once

#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "models/plan/assign_devices.h"
#include "models/plan/balance_experts.h"

namespace moec {

// What is copied: a group of experts, numbered within its layer; a group of one where the experts
// of a layer are not cut.
struct LayerReplicas {
  int64_t layer = 0;
  ExpertBalance balance;
  double imbalance = 0;  // load of the busiest device / mean over devices
};

struct ReplicaPlan {
  int64_t groups = 0;    // of each layer
  int64_t replicas = 0;  // copies of a layer's groups on all devices, the groups included
  std::vector<LayerReplicas> layers;
  double worst_imbalance() const;
  GroupCopies copies(int64_t devices) const;
};

// Places the groups of each MoE layer on `devices` devices by the loads in the file
// (models/plan/expert_loads.h, models/plan/balance_experts.h); the load of a group is that of its
// experts together. `replicas` 0: as few as give each device the same number of slots. Errors:
// loads.*, balance.*, file errors.
Result<ReplicaPlan> plan_replicas(const Plan& plan, int64_t devices, const std::string& load_file,
                                  int64_t replicas);

}  // namespace moec
