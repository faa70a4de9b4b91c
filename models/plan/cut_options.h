// Options for cutting a model into shards.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ir/base/at.h"
#include "ir/base/enum_table.h"
#include "ir/model/plan.h"

namespace moec {

// The most weight bytes of a shard of one kind; 0: no budget.
struct Budget {
  int64_t bytes = 0;
  bool operator==(const Budget&) const = default;
};
using Budgets = std::array<Budget, enum_count<ShardKind>>;  // by ShardKind
inline const Budget& budget_of(const Budgets& budgets, ShardKind kind) { return at(budgets, kind); }

struct CutOptions {
  int64_t experts_per_shard = 0;  // the most of a group; 0: as the budgets demand
  std::string expert_groups;      // a file: experts of the same groups share shards; may be empty
  int64_t head_slices = 0;        // 0: as the budgets demand
  int64_t least_head_slices = 1;  // where head_slices is 0
  int64_t layers_per_shard = 0;   // whole layers; 0: the parts of a layer get shards of their own
  bool fit_layers = false;        // as many whole layers as the budget of kind layers holds
  Budgets budgets = {};
  bool keep_moe_layers = false;    // an MoE layer stays in one shard, whatever its budget
  bool allow_over_budget = false;  // shards above their budgets are warnings, not errors
};

// Into how many shards the experts of a layer, its shared expert, the MLP of a dense layer, the
// head, or all layers were cut, and why.
struct ShardCut {
  ShardKind kind = ShardKind::moe;
  int64_t parts = 1;
  std::string reason;
  int64_t slices = 1;  // of each expert; parts is the number of groups, each of which has so many
  bool operator==(const ShardCut&) const = default;
};

// The value of a flag in MB that allows so many bytes, rounded up: to whole MB, or to thousandths
// for small budgets, where a whole MB would be far more than needed.
std::string megabytes_flag(int64_t bytes);

}  // namespace moec
