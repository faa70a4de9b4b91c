#include "models/cluster/measure_plan.h"

namespace moec {

Result<MeasuredPlan> measure_plan(const Plan& plan, const CutOptions& cuts, DeviceOptions devices,
                                  const MeasureCompiled& compiled) {
  MeasuredPlan measured;
  MOEC_ASSIGN(measured.sizes, measure_shards(plan, compiled));
  measured.report = report_plan(plan, measured.sizes, cuts);
  if (devices.devices.empty()) return measured;
  MOEC_ASSIGN(measured.devices,
              plan_devices(plan, measured.sizes, measured.report, std::move(devices)));
  return measured;
}

}  // namespace moec
