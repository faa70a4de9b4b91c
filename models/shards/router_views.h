// A linear router's matrix and its bias for the choice as views, whatever way a checkpoint stores
// them.
#pragma once

#include "models/shards/shard_scope.h"

namespace moec {

// [slots, hidden]
WeightView router_matrix(const ShardScope& scope);

// [slots]. Only for models with MoeConfig::choice_bias.
WeightView router_choice_bias(const ShardScope& scope);

}  // namespace moec
