// How many experts of each layer can stay in memory when a runtime reads the others on demand.
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
  int64_t budget_bytes = 0;  // for everything
  int64_t base_bytes = 0;    // everything besides experts: trunk, tables, cache
  int64_t slot_bytes = 0;    // one expert, including its scales, offsets and biases
  int64_t layers = 0;        // number of MoE layers
  int64_t experts = 0;       // of each such layer
};

// What a memory of `budget_bytes` leaves for the experts of a plan. Nothing if it has no experts.
std::optional<ResidentSet> resident_set(const Plan& plan, const PlanReport& report,
                                        int64_t budget_bytes);

// The experts of each layer that fit: floor((budget - base) / (layers · slot)), between 0 and all
// of them. `layers` and `slot_bytes` must be above 0.
int64_t resident_capacity(const ResidentSet& set);

}  // namespace moec
