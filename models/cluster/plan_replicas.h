// Plans copies of busy experts on several devices from measured loads.
#pragma once

#include <string>
#include <vector>

#include "ir/model/plan.h"
#include "models/cluster/assign_devices.h"
#include "models/cluster/balance_experts.h"

namespace moec {

// The copies of one layer's groups of experts. Groups are numbered within the layer; where the
// layer is not cut, each expert is a group. `balance` speaks of groups where it says experts.
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
// (models/cluster/read_loads.h, models/cluster/balance_experts.h). The load of a group is the sum
// of its experts' loads. With `replicas` 0 it uses the fewest that give each device the same number
// of slots. Errors: loads.*, balance.*, file errors.
Result<ReplicaPlan> plan_replicas(const Plan& plan, int64_t devices, const std::string& load_file,
                                  int64_t replicas);

}  // namespace moec
