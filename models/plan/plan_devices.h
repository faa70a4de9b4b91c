// Where the shards of a plan lie when there are several devices.
#pragma once

#include <optional>
#include <vector>

#include "ir/plan/plan.h"
#include "models/plan/assign_devices.h"
#include "models/plan/plan_replicas.h"
#include "models/plan/plan_report.h"

namespace moec {

struct DeviceOptions {
  std::vector<Device> devices;  // none: shards are not assigned to devices
  TrunkPlacement trunk = TrunkPlacement::layers;
  std::string loads;     // file of loads of experts, whose busy ones then have copies; or empty
  int64_t replicas = 0;  // with loads; 0: plan_replicas() chooses
};

struct DevicePlan {
  std::vector<Device> devices;
  TrunkPlacement trunk = TrunkPlacement::layers;
  std::vector<DeviceUnit> units;        // the tables, then the shards of the plan
  std::vector<DeviceLoad> loads;        // by device
  std::optional<ReplicaPlan> replicas;  // where loads of experts were given
  // The names of the shards that a device holds, in the order of the plan.
  std::vector<std::string> shards_of(size_t device) const;
};

// `sizes` by index of plan.shards; weights are counted as in `report`. With loads each device has
// the trunk, and each MoE layer's groups of experts have copies; where a layer is not cut, each of
// its experts counts as a group, as a runtime would have it that pages single experts.
// Errors: plan.devices; with loads those of plan_replicas().
Result<DevicePlan> plan_devices(const Plan& plan, const std::vector<ShardSize>& sizes,
                                const PlanReport& report, DeviceOptions options);

}  // namespace moec
