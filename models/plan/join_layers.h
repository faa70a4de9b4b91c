// Puts several whole layers into one shard.
#pragma once

#include <string>
#include <vector>

#include "models/plan/cut_options.h"

namespace moec {

// The number of layers in each shard: the fewest balanced groups of at most
// options.layers_per_shard layers, which must not be 0.
std::vector<int64_t> layer_groups(int64_t layers, const BuildOptions& options);

// The weights of each layer, in elements of the shards' type.
std::vector<int64_t> layer_elements(const ModelConfig& model, const BuildOptions& build);

// Sets build.layers_per_shard as `options` says. With fit_layers that is the largest number that
// keeps every shard within the budget of kind `layers`, or 0 where one layer alone exceeds it: its
// parts then get shards of their own. `parts` of the result is the number of shards of whole
// layers.
ShardCut join_layers(const ModelConfig& model, const CutOptions& options, BuildOptions& build);

}  // namespace moec
