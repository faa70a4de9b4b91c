// Places the shards of a plan on several devices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/model/plan.h"
#include "models/cluster/assign_devices.h"
#include "models/cluster/balance_experts.h"
#include "models/plan/plan_report.h"

namespace moec {

// Copies of busy experts on several devices, planned from measured loads.

// The copies of one layer's expert groups. Groups are numbered within the layer; each expert is a
// group if the layer is not cut. The experts in `balance` are these groups.
struct LayerReplicas {
  int64_t layer = 0;
  ExpertBalance balance;
  double imbalance = 0;  // load of the busiest device / mean over devices
};

struct ReplicaPlan {
  int64_t groups = 0;    // groups per layer
  int64_t replicas = 0;  // copies of a layer's groups on all devices, including the originals
  std::vector<LayerReplicas> layers;
  double worst_imbalance() const;
  GroupCopies copies(int64_t devices) const;
};

// Places the expert groups of each MoE layer on `devices` devices by the loads in the file
// (models/cluster/read_loads.h, models/cluster/balance_experts.h). The load of a group is the sum
// of its experts' loads. `replicas` 0 selects the smallest number with equally many slots per
// device. Errors: loads.*, balance.*, file errors.
Result<ReplicaPlan> plan_replicas(const Plan& plan, int64_t devices, const std::string& load_file,
                                  int64_t replicas);

struct DeviceOptions {
  std::vector<Device> devices;  // empty: shards are not assigned
  TrunkPlacement trunk = TrunkPlacement::layers;
  std::string loads;     // file with loads of experts: busy experts get copies; empty: no copies
  int64_t replicas = 0;  // with loads: copies of a layer's groups; 0: plan_replicas() chooses
};

struct DevicePlan {
  std::vector<Device> devices;
  TrunkPlacement trunk = TrunkPlacement::layers;
  std::vector<DeviceUnit> units;        // the tables, then the shards in the plan's order
  std::vector<DeviceLoad> loads;        // one per device
  std::optional<ReplicaPlan> replicas;  // only with loads
  // The names of the shards on a device, in the plan's order.
  std::vector<std::string> shards_of(size_t device) const;
};

// `sizes[i]` is the size of plan.shards[i]. With loads, every device has the trunk, and the expert
// groups of each MoE layer have copies. Each expert of a layer that is not cut is a group, because
// a runtime may page single experts. Errors: plan.devices; with loads also those of
// plan_replicas().
Result<DevicePlan> plan_devices(const Plan& plan, const std::vector<ShardSize>& sizes,
                                const PlanReport& report, DeviceOptions options);

}  // namespace moec
