// Parses option values that have a grammar.
#pragma once

#include <string>
#include <vector>

#include "models/cluster/plan_devices.h"
#include "models/plan/cut_options.h"

namespace moec {

// Returns the budgets of the target's rules (models/plan/target_budgets.h), replaced by those in
// `words`, in MB of 10^6 bytes:
//   200                 for every kind of shard
//   moe=200,attn=1000   for some kinds: attn, moe (also expert groups and
//                       shared experts), mlp, router, lm_head,
//                       layers (shards of whole layers)
//   none                no budget for any kind
// Errors: plan.budget_kind (an unknown kind, or one given twice), plan.budget_value (not a number
// above 0).
Result<Budgets> parse_budgets(const std::vector<std::string>& words, const Target& target);

// Sets cuts.layers_per_shard, or cuts.fit_layers for "fit". Error plan.layers_per_shard.
Status parse_layers_per_shard(const std::string& text, CutOptions& cuts);

// Parses NAME=MEMORY or NAME=MEMORY,BANDWIDTH, in bytes and bytes per second. Errors:
// plan.device_value (a missing name, or a memory or bandwidth that is not a number above 0),
// plan.device_twice.
Result<std::vector<Device>> parse_devices(const std::vector<std::string>& words);

// Returns the bytes of an alignment such as "64K". Error export.flags: not a power of two from 64
// to 2^30.
Result<uint64_t> parse_alignment(std::string text);

}  // namespace moec
