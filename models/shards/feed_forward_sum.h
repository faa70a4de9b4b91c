// Adds the parts of a layer's feed-forward block to the residual stream. Without norms in between,
// each part is added to the stream directly. Otherwise, as in Gemma 4, the parts are summed first:
//   r + post(shared + routed), with post norms; most models have no shared expert;
//   with normed parts, each of the two is normalized first.
// Source of the formulas: transformers 5.23, modeling_gemma4.py.
#pragma once

#include "models/shards/shard_scope.h"
#include "models/shards/width_slices.h"

namespace moec {

// True if the shard starts the sum of its routed experts, shared expert or dense MLP.
inline bool begins_sum(const ShardDecl& shard, const BuildOptions& options) {
  return has_first_expert(shard, options) && shard.slice == 0;
}

// The sum of both parts of the layer.
ValueId joined_parts(ShardScope& scope, ValueId routed, ValueId shared);

// Half of a part, or of the sum of both parts, in models that average the parts; otherwise the part
// itself.
ValueId averaged(ShardScope& scope, ValueId part);

// The layer's output: residual + sum, scaled by `layer_scale` if present.
ValueId layer_end(ShardScope& scope, ValueId residual, ValueId sum);

// Input and logits of a router with a separate norm (RouterMap::normed). hidden^-1/2 is
// folded into the map, because folding it into the norm's weights would lose precision in f16.
ValueId own_router_norm(ShardScope& scope, ValueId hidden);
ValueId normed_router_logits(ShardScope& scope, ValueId normed);

}  // namespace moec
