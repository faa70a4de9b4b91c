// One expert's matrices and biases as views. A checkpoint may store a tensor for each expert, or
// one tensor for all experts of a layer; the views have the same shapes in both cases.
#pragma once

#include <optional>

#include "models/shards/shard_scope.h"

namespace moec {

struct ExpertViews {
  std::optional<WeightView> gate;  // none where the activation has no gate
  WeightView up, down;
};

// gate and up [f, d], down [d, f]; d is ModelConfig::expert_width()
ExpertViews expert_matrices(const ShardScope& scope, int64_t expert);

// gate and up [f], down [d]. Only for models with MoeConfig::expert_biases.
ExpertViews expert_biases(const ShardScope& scope, int64_t expert);

}  // namespace moec
