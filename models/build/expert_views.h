// One expert's matrices and biases as views, whichever way a checkpoint stores them: expert by
// expert, or all experts of a layer in one tensor.
#pragma once

#include "models/build/shard_scope.h"

namespace moec {

struct ExpertViews {
  WeightView gate, up, down;
};

// gate and up [f, d], down [d, f]
ExpertViews expert_matrices(const ShardScope& scope, int64_t expert);

// gate and up [f], down [d]; the model has them (MoeConfig::expert_biases).
ExpertViews expert_biases(const ShardScope& scope, int64_t expert);

}  // namespace moec
