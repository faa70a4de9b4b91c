// Multi-head latent attention (arXiv 2405.04434, section 2.1). The keys of a head are
// [position | K · latent] and its values V · latent. Each head has its own maps K and V; all heads
// share the latent and the position dims.
//   expanded  computes these formulas and caches the keys and values of all heads.
//   latent    caches only the position and the latent. Because q · (K latent) = (Kᵀ q) · latent, K
//             is applied to the queries and V to the weighted sums. The attention op then has a
//             single key head, with [position | latent] as keys and the latent as values.
#pragma once

#include "models/shards/shard_scope.h"

namespace moec {

// Token tensors of all heads, with heads and dims as in AttentionConfig.
struct LatentOperands {
  ValueId queries, keys, values;
};

// `normed` is the layer's input after its norm.
LatentOperands latent_operands(ShardScope& scope, ValueId normed);

// Maps the result of attention to each head's weighted sum of values: heads · value_dims channels.
ValueId latent_values(ShardScope& scope, ValueId attended);

}  // namespace moec
