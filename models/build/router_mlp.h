// A router that is an MLP and remembers the layer before, as ZAYA1 has it (arXiv 2511.17127 and
// the release): with the earlier layer's state r' of the same token, none in the first layer,
//   r = D x + d + r' ∘ s;   logits = O · gelu(F2 · gelu(F1 · norm(r) + b1) + b2)
// with gelu(x) = x · (1 + erf(x / √2)) / 2 and the model's RMS norm.
#pragma once

#include "models/build/shard_scope.h"

namespace moec {

// The input of the state of the layer before; invalid where the layer takes none.
ValueId earlier_router_state(ShardScope& scope);

// The logits of all slots, of x and that state. r is an output where the next layer takes it.
ValueId router_mlp(ShardScope& scope, ValueId x, ValueId earlier);

}  // namespace moec
