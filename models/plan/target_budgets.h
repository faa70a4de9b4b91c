// Budgets of shards, from a target's rules.
#pragma once

#include "ir/target/target.h"
#include "models/plan/cut_options.h"

namespace moec {

// Per kind of shard, the smallest limit on weight bytes among the target's rules, both warnings and
// errors; none if no rule limits the kind.
Budgets target_budgets(const Target& target);

}  // namespace moec
