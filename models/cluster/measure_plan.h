// Bytes and costs of a plan, and the placement of its shards on devices.
#pragma once

#include <optional>

#include "models/cluster/plan_devices.h"
#include "models/plan/plan_report.h"

namespace moec {

struct MeasuredPlan {
  PlanReport report;
  std::vector<ShardSize> sizes;       // one per shard of the plan
  std::optional<DevicePlan> devices;  // if the options name devices
};

// `compiled` compiles a shard and measures it. Errors: those of measure_shards() and
// plan_devices().
Result<MeasuredPlan> measure_plan(const Plan& plan, const CutOptions& cuts, DeviceOptions devices,
                                  const MeasureCompiled& compiled);

}  // namespace moec
