// Affine residuals, as in ZAYA1: learned vectors scale and shift the residual stream r and the
// output y of attention or feed-forward before they are added. The stream starts as (e + b) ∘ s,
// where e is the embedding, and becomes
//   (r + b_r) ∘ s_r + (y + b_y) ∘ s_y
// It is computed as ((r + b_r) ∘ s_r + b_y ∘ s_y) + y ∘ s_y, so that y may be a sum of parts from
// several shards.
#pragma once

#include "models/shards/shard_scope.h"

namespace moec {

// The start of the residual stream, (e + b) ∘ s.
ValueId affine_stream(ShardScope& scope, ValueId embedded);

// The new residual stream, with y = `part`. `branch` is "attn" or "ffn".
ValueId affine_sum(ShardScope& scope, ValueId residual, ValueId part, const std::string& branch,
                   const std::string& name);

// Adds another part of y to the result of affine_sum: sum + part ∘ s_y.
ValueId add_affine_part(ShardScope& scope, ValueId sum, ValueId part, const std::string& branch,
                        const std::string& name);

}  // namespace moec
