// How many experts of each layer can stay in memory, when the others are read once they are chosen.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/plan/plan.h"
#include "models/plan/plan_report.h"

namespace moec {

// The part of a device's recommended working set that is planned with: the published figure of
// mlx-moe (its architecture document). A Mac recommends three quarters of its memory.
inline constexpr double kResidentShare = 0.71;

struct ResidentSet {
  int64_t budget_bytes = 0;  // for everything
  int64_t base_bytes = 0;    // everything but the experts: trunk, tables, cache
  int64_t slot_bytes = 0;    // of one expert, its scales, offsets and biases included
  int64_t layers = 0;        // that have experts
  int64_t experts = 0;       // of each of them
};

// What a memory of `budget_bytes` leaves for the experts of a plan. Nothing if it has no experts.
std::optional<ResidentSet> resident_set(const Plan& plan, const PlanReport& report,
                                        int64_t budget_bytes);

// Experts of each layer that fit: floor((budget - base) / (layers · slot)), at most all of them and
// at least 0. `layers` and `slot_bytes` are above 0.
int64_t resident_capacity(const ResidentSet& set);

}  // namespace moec
