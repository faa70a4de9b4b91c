// Multi-head latent attention (arXiv 2405.04434, section 2.1) in the form that caches what all
// heads share. The keys of a head are [position | K · latent], its values V · latent, with K and V
// maps of the head's own; q · K latent = (Kᵀ q) · latent, so the queries take K and the sums over
// values take V, and attention itself sees one head of keys and values: [position | latent].
#pragma once

#include "models/shard_scope.h"

namespace moec {

struct LatentOperands {
  ValueId queries;  // token tensor of heads · (r + c) channels, r rotated dims, c the latent's
  ValueId keys;     // token tensor of r + c channels; they are the values too
};

// Of the layer's input after its norm.
LatentOperands latent_operands(ShardScope& scope, ValueId normed);

// Each head's values of what attention returns for it: heads · value_dims channels.
ValueId latent_values(ShardScope& scope, ValueId attended);

}  // namespace moec
