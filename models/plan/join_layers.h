// Joins several whole layers into one shard.
#pragma once

#include <string>
#include <vector>

#include "models/plan/cut_options.h"

namespace moec {

// Returns the number of layers per shard: the fewest balanced groups of at most
// options.layers_per_shard layers. That limit must not be 0.
std::vector<int64_t> layer_groups(int64_t layers, const BuildOptions& options);

// The weights of each layer, in elements of the shards' type.
std::vector<int64_t> layer_elements(const ModelConfig& model, const BuildOptions& build);

// Sets build.layers_per_shard from `options`. With fit_layers, chooses the largest number for which
// every shard meets the budget of kind `layers`, or 0 if a single layer exceeds the budget; the
// parts of layers then become separate shards. `parts` of the result is the number of shards of
// whole layers.
ShardCut join_layers(const ModelConfig& model, const CutOptions& options, BuildOptions& build);

}  // namespace moec
