// Number of experts per layer that can stay in memory if a runtime reads all other experts on
// demand.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/model/plan.h"
#include "models/plan/plan_report.h"

namespace moec {

// The share of a device's recommended working set that a plan uses. Source: the architecture
// document of mlx-moe. A Mac recommends three quarters of its memory as the working set.
inline constexpr double kResidentShare = 0.71;

struct ResidentSet {
  int64_t budget_bytes = 0;  // total
  int64_t base_bytes = 0;    // everything except experts: trunk, tables, cache
  int64_t slot_bytes = 0;    // one expert, including its scales, offsets and biases
  int64_t layers = 0;        // number of MoE layers
  int64_t experts = 0;       // experts per MoE layer
};

// The resident set of a plan for `budget_bytes` of memory. Empty if the plan has no experts.
std::optional<ResidentSet> resident_set(const Plan& plan, const PlanReport& report,
                                        int64_t budget_bytes);

// Experts per layer that fit: floor((budget - base) / (layers · slot)), clamped to 0 … experts.
// `layers` and `slot_bytes` must be above 0.
int64_t resident_capacity(const ResidentSet& set);

}  // namespace moec
