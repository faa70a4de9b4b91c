// Replaces weights with noise, for exports without a checkpoint. The noise of a tensor depends only
// on the seed and the tensor's name.
#pragma once

#include <cstdint>

#include "ir/graph/shard.h"

namespace moec {

// Replaces each tensor of the view with values of the same type, uniform in ±0.02. The range is
// small enough for activations to stay finite in f16 through any number of layers.
WeightView seeded_weights(const WeightView& view, uint64_t seed);

// Does the same for every weight of a shard.
Shard with_seeded_weights(Shard shard, uint64_t seed);

}  // namespace moec
