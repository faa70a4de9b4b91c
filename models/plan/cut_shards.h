// Cuts the experts, dense MLPs and the head so that each shard stays within its byte budget.
#pragma once

#include <vector>

#include "models/plan/cut_options.h"

namespace moec {

// Returns the number of experts per group of a layer: the fewest balanced groups of at most
// options.experts_per_shard experts, or one group if that limit is 0.
std::vector<int64_t> expert_groups(int64_t experts, const BuildOptions& options);

// The experts of each shard of this layer: expert_groups() applied to each set of
// build.experts.parts, in order. With build.experts.drop_masked, shards lack the masked experts,
// and a group of masked experts has no shard.
std::vector<std::vector<int64_t>> expert_shards(int64_t layer, int64_t experts,
                                                const BuildOptions& options);

// The experts of this layer that its shards have, ascending.
std::vector<int64_t> held_experts(int64_t layer, int64_t experts, const BuildOptions& options);

// Returns the experts per shard of the MoE layer with the most shards.
std::vector<int64_t> most_groups(const ModelConfig& model, const BuildOptions& options);

// Sets build.layers_per_shard (models/plan/join_layers.h), host_routing, experts_per_shard, slices
// and head_slices. head_slices never decreases: the value for the target's channels
// (models/plan/fit_target.h) is a lower bound.
//
//   MoE layer       above its budget: as few expert groups as the budget of `experts` allows. Group
//                   sizes differ by at most one expert; the first group has the shared expert
//   shared expert   separate shards if it does not fit next to one expert
//   any MLP         an expert, a shared expert or a dense MLP above its budget: as few slices of
//                   the intermediate width as the budget allows (models/shards/width_slices.h)
//   expert groups   with build.experts.parts, a shard has only experts with the same groups, and
//                   the shared expert has separate shards
//   whole layers    not cut; neither are MoE layers with options.keep_moe_layers
//
// Returns one ShardCut each for whole layers, if `options` requests them; for the experts, unless
// they are in shards of whole layers; for a shared expert and for dense MLPs, if they are cut; and
// for the head. The cut of experts has kind experts if they have separate shards, otherwise kind
// moe. Errors:
//   plan.budget              no cut meets a budget; the message states the smallest feasible one.
//   Not
//                            an error with options.allow_over_budget
//   plan.experts_per_shard   more experts per group are requested than a layer has
//   plan.expert_groups       options.expert_groups for a model whose first expert group does more
//                            than add experts; also the errors of read_expert_parts()
Result<std::vector<ShardCut>> cut_shards(const ModelConfig& model, const CutOptions& options,
                                         BuildOptions& build);

}  // namespace moec
