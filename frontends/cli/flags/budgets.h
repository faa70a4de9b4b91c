// --max-shard-mb: the budgets of shards by kind.
#pragma once

#include <string>
#include <vector>

#include "ir/target/target.h"
#include "models/plan/cut_shards.h"

namespace moec {

// The target's own budgets, from its rules about a shard's weight bytes, each replaced by what the
// user gives:
//   200                 of each kind, in MB of 10^6 bytes
//   moe=200,attn=1000   of some kinds: attn, moe (also groups of experts), mlp, router, lm_head,
//                       layers (shards of whole layers)
//   none                no budgets
// Errors plan.budget_kind (unknown, with the known ones, or given twice) and plan.budget_value (not
// a number above 0).
Result<Budgets> parse_budgets(const std::vector<std::string>& words, const Target& target);

}  // namespace moec
