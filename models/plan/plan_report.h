// What a plan means in bytes and multiply-adds, before anything is exported.
#pragma once

#include <vector>

#include "ir/plan/plan.h"
#include "models/plan/cut_shards.h"
#include "models/plan/shard_sizes.h"

namespace moec {

// The shards of one kind. Bytes are of weights, as they are counted.
struct KindReport {
  ShardKind kind = ShardKind::attention;
  int64_t shards = 0;
  int64_t largest_bytes = 0, total_bytes = 0;
  int64_t budget_bytes = 0;           // 0: none
  int64_t peak_activation_bytes = 0;  // the most of one shard
  int64_t resident_bytes = 0;         // the most of one: weights, peak and its cache
  bool within_budget() const { return budget_bytes == 0 || largest_bytes <= budget_bytes; }
};

// What one token costs: weight bytes read and multiply-adds.
struct TokenCost {
  int64_t bytes = 0, macs = 0;
};

struct PlanReport {
  int64_t parameters = 0;  // of the model: elements of the tensors that it needs
  WeightStorage storage = WeightStorage::f32;  // that weights are counted as
  std::vector<KindReport> kinds;               // that the plan has, in the order of ShardKind
  std::vector<int64_t> groups;                 // experts of each shard of an MoE layer
  int64_t expert_bytes = 0;                    // of one expert

  TokenCost dense;        // every shard runs with all its experts
  TokenCost host_routed;  // groups without a chosen expert are skipped: the mean over all choices
                          // of top_k experts, each as likely as the others
  TokenCost sparse;       // the chosen experts alone

  // Memory. Tables are the embedding's rows and the rotary table; the cache is that of one sequence
  // of the plan's context, all layers.
  int64_t trunk_bytes = 0, expert_total_bytes = 0;
  int64_t embedding_bytes = 0, rope_bytes = 0, head_bytes = 0;  // the head is part of the trunk
  int64_t cache_bytes = 0;
  int64_t total_bytes() const {
    return trunk_bytes + expert_total_bytes + embedding_bytes + rope_bytes + cache_bytes;
  }
  bool within_budgets() const;
};

// `sizes` by index of plan.shards. A table of a model is in the plan's element type however weights
// are counted.
PlanReport report_plan(const Plan& plan, const std::vector<ShardSize>& sizes,
                       const CutOptions& options);

// The chance that a token runs a shard, when groups of experts are skipped and each choice of top_k
// experts is as likely as the others. A group with the shared expert always runs.
double chance_to_run(const Plan& plan, size_t index);

// The chance that at least one of `chosen` experts, drawn from `all` with equal chance, is among
// `some` of them: 1 - C(all - some, chosen) / C(all, chosen).
double chance_of_any(int64_t some, int64_t chosen, int64_t all);

}  // namespace moec
