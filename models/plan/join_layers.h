// How many small layers share a shard.
#pragma once

#include <string>
#include <vector>

#include "models/plan/cut_options.h"

namespace moec {

// The layers of each shard: the fewest balanced groups of at most options.layers_per_shard, which
// is not 0.
std::vector<int64_t> layer_groups(int64_t layers, const BuildOptions& options);

// Weights of each layer, in elements.
std::vector<int64_t> layer_elements(const ModelConfig& model);

// Sets build.layers_per_shard as `options` asks; with fit_layers to the largest number with which
// every shard stays within the budget of `layers`, or to 0 where one layer alone does not: its
// parts then have shards of their own. `parts` of the result is the number of shards of several
// layers.
ShardCut join_layers(const ModelConfig& model, const CutOptions& options, BuildOptions& build);

}  // namespace moec
