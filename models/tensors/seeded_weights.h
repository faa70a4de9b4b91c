// Weights without a checkpoint: every tensor becomes noise, a pure function of seed and name.
#pragma once

#include <cstdint>

#include "ir/graph/shard.h"

namespace moec {

// The view with each tensor replaced by values uniform in ±0.02 of the same type. Small enough for
// activations to stay finite in f16 through any number of layers.
WeightView seeded_weights(const WeightView& view, uint64_t seed);

// The same for every weight of a shard.
Shard with_seeded_weights(Shard shard, uint64_t seed);

}  // namespace moec
