// Multi-head latent attention (arXiv 2405.04434, section 2.1). The keys of a head are
// [position | K · latent], its values V · latent, with K and V maps of the head's own, and with a
// position that all heads share.
//   expanded  computes just that, and caches the keys and values of all heads.
//   latent    caches what the heads share. q · K latent = (Kᵀ q) · latent, so the queries take K
//             and the sums over values take V, and attention itself sees one head, with
//             [position | latent] for keys and the latent for values.
#pragma once

#include "models/build/shard_scope.h"

namespace moec {

// Token tensors with the channels of `heads` queries, and of kv_heads keys and values, as
// AttentionConfig tells them.
struct LatentOperands {
  ValueId queries, keys, values;
};

// Of the layer's input after its norm.
LatentOperands latent_operands(ShardScope& scope, ValueId normed);

// The sums of each head's values, heads · value_dims channels, from what attention returns.
ValueId latent_values(ShardScope& scope, ValueId attended);

}  // namespace moec
