// Compares the shards of a plan with their budgets. `moec plan` and `moec export` share this check,
// so that an export refuses exactly what a plan reports.
#pragma once

#include "models/plan/plan_report.h"

namespace moec {

// Returns one finding plan.over_budget per kind of shard that exceeds its budget, located at the
// largest shard of the kind. It is an error, or a warning with options.allow_over_budget. The next
// step names the flags that meet or raise the budget.
Diagnostics check_budgets(const PlanReport& report, const CutOptions& options);

}  // namespace moec
