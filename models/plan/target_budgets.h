// The budgets of shards that a target's rules ask for.
#pragma once

#include "ir/target/target.h"
#include "models/plan/cut_options.h"

namespace moec {

// For each kind of shard the smallest limit on weight bytes among the target's rules, warnings and
// errors alike; none where no rule limits the kind.
Budgets target_budgets(const Target& target);

}  // namespace moec
