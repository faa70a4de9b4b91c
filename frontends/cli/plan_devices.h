// Where the shards of a plan lie when there are several devices.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "ir/plan.h"
#include "models/assign_devices.h"
#include "models/plan_report.h"

namespace moec {

struct DevicePlan {
  std::vector<Device> devices;
  TrunkPlacement trunk = TrunkPlacement::layers;
  std::vector<DeviceUnit> units;  // the tables, then the shards of the plan
  std::vector<DeviceLoad> loads;  // by device
};

// `sizes` by index of plan.shards; weights are counted as in `report`. Error plan.devices.
Result<DevicePlan> plan_devices(const Plan& plan, const std::vector<ShardSize>& sizes,
                                const PlanReport& report, std::vector<Device> devices,
                                TrunkPlacement trunk);

void print_devices(const DevicePlan& plan);
// For each device what it holds, and the names of its shards.
nlohmann::ordered_json devices_json(const DevicePlan& plan);

}  // namespace moec
