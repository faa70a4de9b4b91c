#include "models/plan/residency.h"

#include <algorithm>

#include "ir/base/invariant.h"

namespace moec {

std::optional<ResidentSet> resident_set(const Plan& plan, const PlanReport& report,
                                        int64_t budget_bytes) {
  // Without experts, all weights are always resident.
  if (report.expert_bytes == 0) return std::nullopt;
  ResidentSet set;
  set.budget_bytes = budget_bytes;
  set.base_bytes = report.total_bytes() - report.expert_total_bytes;
  set.slot_bytes = report.expert_bytes;
  for (const LayerConfig& layer : plan.model.layers) set.layers += layer.moe ? 1 : 0;
  set.experts = plan.model.moe.experts;
  return set;
}

int64_t resident_capacity(const ResidentSet& set) {
  MOEC_CHECK(set.layers > 0 && set.slot_bytes > 0, "{} layers with slots of {} bytes", set.layers,
             set.slot_bytes);
  // Each layer gets the same number of slots, as in ExpertStore.
  const int64_t room = std::max<int64_t>(set.budget_bytes - set.base_bytes, 0);
  return std::min(room / (set.layers * set.slot_bytes), set.experts);
}

}  // namespace moec
