// --max-shard-mb: the budgets of shards by kind.
#pragma once

#include <string>
#include <vector>

#include "ir/target/target.h"
#include "models/plan/cut_shards.h"

namespace moec {

// The budgets of the target's rules (models/plan/target_budgets.h), replaced by those in `words`,
// in MB of 10^6 bytes:
//   200                 for each kind of shard
//   moe=200,attn=1000   for some kinds: attn, moe (also groups of experts and
//                       shared experts), mlp, router, lm_head,
//                       layers (shards of whole layers)
//   none                no budget for any kind
// Errors: plan.budget_kind (an unknown kind, or one given twice), plan.budget_value (not a number
// above 0).
Result<Budgets> parse_budgets(const std::vector<std::string>& words, const Target& target);

}  // namespace moec
