// Cuts the experts and the head so that each shard stays within its budget of bytes.
#pragma once

#include <vector>

#include "models/plan/cut_options.h"

namespace moec {

// The number of experts in each group of a layer: the fewest balanced groups of at most
// options.experts_per_shard experts, or one group where that is 0.
std::vector<int64_t> expert_groups(int64_t experts, const BuildOptions& options);

// The numbers of weights of an MoE layer's parts.
struct MoeElements {
  int64_t expert = 0;  // of one expert
  int64_t shared = 0;  // of the shared expert with its gate
  int64_t norm = 0;    // of the norm before the experts, which every group repeats
  int64_t router = 0;
};
MoeElements moe_elements(const ModelConfig& model);

// Sets build.layers_per_shard (models/plan/join_layers.h), host_routing, experts_per_shard and
// head_slices. head_slices never becomes smaller: the number that the target's channels demand
// (models/plan/fit_target.h) is a lower bound.
// An MoE layer above its budget is cut into as few groups of experts as the budget of `experts`
// allows. The groups differ by at most one expert, and the first one also holds the shared expert.
// Layers in shards of whole layers are not cut.
// Returns a ShardCut for whole layers if `options` asks for them; one for the experts, unless they
// are in shards of whole layers (kind moe, or kind experts where they have shards of their own);
// and one for the head. Error plan.budget: a budget given by the user is smaller than one expert or
// one row of the head. The message names the smallest budget that works.
Result<std::vector<ShardCut>> cut_shards(const ModelConfig& model, const CutOptions& options,
                                         BuildOptions& build);

}  // namespace moec
