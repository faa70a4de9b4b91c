// Places the shards of a plan on several devices.
#pragma once

#include <optional>
#include <vector>

#include "ir/model/plan.h"
#include "models/cluster/assign_devices.h"
#include "models/cluster/plan_replicas.h"
#include "models/plan/plan_report.h"

namespace moec {

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
  std::vector<DeviceLoad> loads;        // by device
  std::optional<ReplicaPlan> replicas;  // only with loads
  // The names of the shards that a device holds, in the plan's order.
  std::vector<std::string> shards_of(size_t device) const;
};

// `sizes[i]` is the size of plan.shards[i]. With loads, every
// device has the trunk, and the groups of experts of each MoE layer have copies. Where a layer is
// not cut, each of its experts counts as a group, because a runtime may page single experts.
// Errors: plan.devices; with loads also those of plan_replicas().
Result<DevicePlan> plan_devices(const Plan& plan, const std::vector<ShardSize>& sizes,
                                const PlanReport& report, DeviceOptions options);

}  // namespace moec
