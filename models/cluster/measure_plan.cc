#include "models/cluster/measure_plan.h"

namespace moec {

Result<MeasuredPlan> measure_plan(const Plan& plan, const CutOptions& cuts, DeviceOptions devices,
                                  const MeasureCompiled& compiled) {
  MOEC_ASSIGN(const std::vector<ShardSize> sizes, measure_shards(plan, compiled));
  MeasuredPlan measured{report_plan(plan, sizes, cuts), std::nullopt};
  if (devices.devices.empty()) return measured;
  MOEC_ASSIGN(measured.devices, plan_devices(plan, sizes, measured.report, std::move(devices)));
  return measured;
}

}  // namespace moec
