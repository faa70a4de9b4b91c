// Compares the shards of a plan with their budgets. `moec plan` and `moec export` decide here, so
// that an export refuses what a plan reports.
#pragma once

#include "models/plan/plan_report.h"

namespace moec {

// One finding plan.over_budget for each kind of shard that exceeds its budget, placed at the
// largest shard of the kind: an error, or a warning with options.allow_over_budget. Its next step
// names the flags that keep or lift the budget.
Diagnostics check_budgets(const PlanReport& report, const CutOptions& options);

}  // namespace moec
