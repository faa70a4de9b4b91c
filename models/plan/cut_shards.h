// Cuts the experts, dense MLPs and the head so that each shard stays within its budget of bytes.
#pragma once

#include <vector>

#include "models/plan/cut_options.h"

namespace moec {

// The number of experts in each group of a layer: the fewest balanced groups of at most
// options.experts_per_shard experts, or one group where that is 0.
std::vector<int64_t> expert_groups(int64_t experts, const BuildOptions& options);

// The same cut of each set of build.experts.parts, whose shards follow one another: the experts of
// each shard of this layer.
std::vector<std::vector<int64_t>> expert_shards(int64_t layer, int64_t experts,
                                                const BuildOptions& options);

// The numbers of experts in the shards of the MoE layer that has the most of them.
std::vector<int64_t> most_groups(const ModelConfig& model, const BuildOptions& options);

// Sets build.layers_per_shard (models/plan/join_layers.h), host_routing, experts_per_shard,
// slices and head_slices. head_slices never becomes smaller: the
// number that the target's channels demand (models/plan/fit_target.h) is a lower bound.
// - An MoE layer above its budget is cut into as few groups of experts as the budget of `experts`
//   allows. The groups differ by at most one expert, and the first one also holds the shared
//   expert.
// - Where the shared expert does not fit beside one expert, it gets shards of its own.
// - An expert, a shared expert or the MLP of a dense layer above its budget is cut along its
//   intermediate width into as few slices as the budget allows (models/shards/width_slices.h).
// - With options.expert_groups (build.experts.parts), a shard holds experts of the same groups
// only,
//   and the shared expert has shards of its own.
// - Layers in shards of whole layers are not cut, nor MoE layers with options.keep_moe_layers.
// Returns a ShardCut for whole layers if `options` asks for them; one for the experts, unless they
// are in shards of whole layers (kind moe, or kind experts where they have shards of their own);
// one each for a shared expert and for dense MLPs that are cut; and one for the head. Errors:
//   plan.budget              no cut can meet a budget; the message names the smallest that works.
//                            None with options.allow_over_budget
//   plan.experts_per_shard   more experts a group are requested than a layer has
//   plan.expert_groups       options.expert_groups for a model whose first group of experts does
//                            more than add experts; and those of read_expert_parts()
Result<std::vector<ShardCut>> cut_shards(const ModelConfig& model, const CutOptions& options,
                                         BuildOptions& build);

}  // namespace moec
