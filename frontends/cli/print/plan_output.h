// What `moec plan` prints for people.
#pragma once

#include "frontends/jobs/plan/plan_source.h"

namespace moec {

// The shards with their budgets, the cuts, the cost of a token, memory and devices.
void print_plan(const PlannedSource& planned);

}  // namespace moec
