// How far the experts and the head are cut, so that each shard stays within its budget of bytes.
#pragma once

#include <vector>

#include "models/plan/cut_options.h"

namespace moec {

// The experts of each group of a layer: the fewest balanced groups of at most
// options.experts_per_shard. One group where that is 0.
std::vector<int64_t> expert_groups(int64_t experts, const BuildOptions& options);

// Weights of an MoE layer's parts, in elements.
struct MoeElements {
  int64_t expert = 0;  // one of them
  int64_t shared = 0;  // shared expert with its gate
  int64_t norm = 0;    // in front of the experts; every group has it
  int64_t router = 0;
};
MoeElements moe_elements(const ModelConfig& model);

// Sets build.layers_per_shard (models/plan/join_layers.h), host_routing, experts_per_shard and
// head_slices. The last
// is at least as it was: what the target's channels ask for (models/plan/fit_target.h). A layer is
// cut if it is above its budget, into as few groups as stay within the budget of `experts` when
// they differ by at most one expert and the first also holds the shared expert. Layers that share
// shards are not cut. Returns a ShardCut for whole layers where they were asked for, one for the
// experts (kind moe, or experts where they have shards of their own) unless they are in such
// shards, and one for the head. Error plan.budget where a budget that was asked for is smaller than
// one expert or one row of the head; it names the least that works.
Result<std::vector<ShardCut>> cut_shards(const ModelConfig& model, const CutOptions& options,
                                         BuildOptions& build);

}  // namespace moec
