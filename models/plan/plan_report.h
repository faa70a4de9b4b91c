// Reports the bytes and multiply-adds of a plan before an export.
#pragma once

#include <string>
#include <vector>

#include "ir/model/plan.h"
#include "models/plan/cut_shards.h"
#include "models/plan/shard_sizes.h"

namespace moec {

// The shards of one kind. Bytes are weight bytes as stored in the shards.
struct KindReport {
  ShardKind kind = ShardKind::attention;
  int64_t shards = 0;
  int64_t largest_bytes = 0, total_bytes = 0;
  std::string largest;                // name of the largest shard; the first of several
  int64_t budget_bytes = 0;           // 0: none
  int64_t over = 0;                   // shards above the budget
  int64_t peak_activation_bytes = 0;  // maximum over the shards
  int64_t resident_bytes = 0;         // maximum of weights + peak activations + cache
  bool within_budget() const { return over == 0; }
};

// Cost of one token: weight bytes read and multiply-adds.
struct TokenCost {
  int64_t bytes = 0, macs = 0;
};

struct PlanReport {
  int64_t parameters = 0;         // elements of the tensors that the model needs
  DType dtype = DType::f32;       // type of weights that stay float
  bool all_float = true;          // all weights stay float
  std::vector<KindReport> kinds;  // the kinds in the plan, in the order of ShardKind
  std::vector<int64_t> groups;    // experts per shard, in the MoE layer with the most shards
  int64_t expert_bytes = 0;       // bytes per expert; the maximum if layers differ

  TokenCost dense;        // every shard runs, with all its experts
  TokenCost host_routed;  // groups without a chosen expert are skipped: mean over all choices of
                          // top_k experts, assumed equally likely
  TokenCost sparse;       // the chosen experts only

  // Memory. The tables are the embedding's rows and the rotary table. The cache is the total over
  // layers for one sequence of the plan's context.
  int64_t trunk_bytes = 0, expert_total_bytes = 0;
  int64_t embedding_bytes = 0, rope_bytes = 0, head_bytes = 0;  // head: part of trunk
  int64_t cache_bytes = 0;
  int64_t total_bytes() const {
    return trunk_bytes + expert_total_bytes + embedding_bytes + rope_bytes + cache_bytes;
  }
};

// `sizes[i]` is the size of plan.shards[i]. Tables are counted in the plan's element type.
PlanReport report_plan(const Plan& plan, const std::vector<ShardSize>& sizes,
                       const CutOptions& options);

// The probability that a token runs a shard when groups without a chosen expert are skipped and all
// choices of top_k experts are equally likely. A group with the shared expert always runs.
double chance_to_run(const Plan& plan, size_t index);

// The probability that at least one of `chosen` experts, drawn uniformly from `all`, is among
// `some` given ones: 1 - C(all - some, chosen) / C(all, chosen).
double chance_of_any(int64_t some, int64_t chosen, int64_t all);

}  // namespace moec
