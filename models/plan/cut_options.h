// Options for cutting a model into shards.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ir/base/at.h"
#include "ir/base/enum_table.h"
#include "ir/model/plan.h"

namespace moec {

// Maximum weight bytes per shard of one kind; 0: no budget.
struct Budget {
  int64_t bytes = 0;
  bool operator==(const Budget&) const = default;
};
using Budgets = std::array<Budget, enum_count<ShardKind>>;  // by ShardKind
inline const Budget& budget_of(const Budgets& budgets, ShardKind kind) { return at(budgets, kind); }

struct CutOptions {
  int64_t experts_per_shard = 0;  // maximum per group; 0: derived from budgets
  std::string expert_groups;      // file with groups; a shard's experts belong to the same ones
  int64_t head_slices = 0;        // 0: derived from budgets
  int64_t least_head_slices = 1;  // minimum if head_slices is 0
  int64_t layers_per_shard = 0;   // whole layers; 0: the parts of a layer are separate shards
  bool fit_layers = false;        // as many whole layers as fit into the budget of kind layers
  Budgets budgets = {};
  bool keep_moe_layers = false;    // an MoE layer stays in one shard regardless of its budget
  bool allow_over_budget = false;  // exceeded budgets are warnings instead of errors
};

// Number of shards into which the experts of a layer, its shared expert, the MLP of a dense layer,
// the head, or all layers were cut, and the reason.
struct ShardCut {
  ShardKind kind = ShardKind::moe;
  int64_t parts = 1;
  std::string reason;
  int64_t slices = 1;  // per expert: each of `parts` groups has this many shards
  bool operator==(const ShardCut&) const = default;
};

// The flag value in MB that allows `bytes`: rounded up to whole MB, or to 0.001 MB for small
// budgets.
std::string megabytes_flag(int64_t bytes);

}  // namespace moec
