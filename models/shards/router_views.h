// Router weights as views for every checkpoint storage format, and the ops of an MLP router.
#pragma once

#include "models/shards/shard_scope.h"

namespace moec {

// [slots, hidden]
WeightView router_matrix(const ShardScope& scope);

// [slots]. Only for models with MoeConfig::choice_bias.
WeightView router_choice_bias(const ShardScope& scope);

// An MLP router that reads the state r' of the previous layer's router for the same token, as in
// ZAYA1 (arXiv 2511.17127 and the release). The first layer has no r':
//   r = D x + d + r' ∘ s;   logits = O · gelu(F2 · gelu(F1 · norm(r) + b1) + b2)
// with gelu(x) = x · (1 + erf(x / √2)) / 2 and the model's RMS norm.

// Declares the input for the previous router's state. Invalid if the layer has none.
ValueId earlier_router_state(ShardScope& scope);

// The logits of all slots from x and that state. Declares r as an output if the next layer reads
// it.
ValueId router_mlp(ShardScope& scope, ValueId x, ValueId earlier);

}  // namespace moec
