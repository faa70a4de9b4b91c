// Residuals by vectors, as ZAYA1 has them: the stream begins as (e + b) ∘ s of the embedding e, and
// attention and feed-forward each make (r + b_r) ∘ s_r + (y + b_y) ∘ s_y of it, y being what they
// add; computed as ((r + b_r) ∘ s_r + b_y ∘ s_y) + y ∘ s_y, so that y may come in parts.
#pragma once

#include "models/build/shard_scope.h"

namespace moec {

// (e + b) ∘ s
ValueId affine_stream(ShardScope& scope, ValueId embedded);

// `branch` is "attn" or "ffn".
ValueId affine_sum(ShardScope& scope, ValueId residual, ValueId part, const std::string& branch,
                   const std::string& name);

// Of a y that is a sum of parts: what a part other than the first adds, sum + part ∘ s_y.
ValueId add_affine_part(ShardScope& scope, ValueId sum, ValueId part, const std::string& branch,
                        const std::string& name);

}  // namespace moec
