// One expert's matrices and biases as views. A checkpoint may store a tensor for each expert, or
// one tensor for all experts of a layer; the views have the same shapes in both cases.
#pragma once

#include <optional>

#include "models/shards/shard_scope.h"

namespace moec {

struct ExpertViews {
  std::optional<WeightView> gate;  // none where the activation has no gate
  WeightView up, down;
};

// gate and up [f, d], down [d, f]; d is ModelConfig::expert_width()
ExpertViews expert_matrices(const ShardScope& scope, int64_t expert);

// gate and up [f], down [d]. Only for models with MoeConfig::expert_biases.
ExpertViews expert_biases(const ShardScope& scope, int64_t expert);

// Routed experts that read and write a latent of z channels (MoeConfig::latent), between two maps
// of the residual stream's d. The router and the shared expert read the stream itself:
//   W_out · (Σ_e w_e · expert_e(W_in · x + b_in)) + b_out + shared(x)
// W_in [z, d] and W_out [d, z] are the roles latent_in and latent_out; the biases, of the roles
// with _bias, are there with MlpConfig::bias. W_out is linear, so each shard of a layer applies it
// to the sum of its own experts, and one without chosen experts adds 0. b_out is added once a
// layer, by the shard that adds the shared expert; of its slices, by the first. Without a latent
// each function returns what it is given. Source of the formula: transformers 5.23,
// modeling_nemotron_h.py.

// What the experts read of the normed stream x: z channels.
ValueId to_latent(ShardScope& scope, ValueId x);

// Whether this shard adds b_out, which some shard of the layer does.
enum class LatentBias : uint8_t { here, elsewhere };

// The sum of the shard's experts, z channels, as a part of the stream: d channels.
ValueId from_latent(ShardScope& scope, ValueId sum, LatentBias bias);

// In a shard of the shared expert alone: its part, with b_out in the first slice.
ValueId with_latent_bias(ShardScope& scope, ValueId shared);

}  // namespace moec
