// How the parts of a layer's feed-forward become the new residual stream. Where no norm lies
// between, each part is added to the stream as it comes. Else, as in Gemma 4, the parts are summed
// up before:
//   r + post(shared + routed), with post norms; shared is absent in most models;
//   each of the two by a norm of its own before that, with normed parts.
// Source of the formulas: transformers 5.23, modeling_gemma4.py.
#pragma once

#include "models/shards/shard_scope.h"

namespace moec {

// Whether the shard is the first to add to its sum: that of the routed experts, of the shared one,
// or of a dense MLP.
inline bool begins_sum(const ShardDecl& shard) {
  return shard.first_expert == 0 && shard.slice == 0;
}

// The layer's whole sum.
ValueId joined_parts(ShardScope& scope, ValueId routed, ValueId shared);

// The stream behind the layer: the residual plus the sum, and with layer_scale times its number.
ValueId layer_end(ShardScope& scope, ValueId residual, ValueId sum);

// Of a router that has a norm of its own (MoeConfig::router_normed): what it reads, and its logits.
// hidden^-1/2 is folded into the map, because the norm's weights keep more digits in f16 without
// it.
ValueId own_router_norm(ShardScope& scope, ValueId hidden);
ValueId normed_router_logits(ShardScope& scope, ValueId normed);

}  // namespace moec
