// One expert's matrices and biases as views, whichever way a checkpoint stores them: expert by
// expert, or all experts of a layer in one tensor.
#pragma once

#include "models/shard_scope.h"

namespace moec {

// gate and up [f, d], down [d, f]
struct ExpertMatrices {
  WeightView gate, up, down;
};
ExpertMatrices expert_matrices(const ShardScope& scope, int64_t expert);

// gate and up [f], down [d]; the model has them (MoeConfig::expert_biases).
struct ExpertBiases {
  WeightView gate, up, down;
};
ExpertBiases expert_biases(const ShardScope& scope, int64_t expert);

}  // namespace moec
