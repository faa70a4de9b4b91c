// One expert's matrices and biases as views. A checkpoint may store one tensor per expert or one
// for all experts of a layer; the views have the same shapes in both cases.
#pragma once

#include <optional>

#include "models/shards/shard_scope.h"

namespace moec {

struct ExpertViews {
  std::optional<WeightView> gate;  // absent if the activation has no gate
  WeightView up, down;
};

// gate and up [f, d], down [d, f]; d is ModelConfig::expert_width()
ExpertViews expert_matrices(const ShardScope& scope, int64_t expert);

// gate and up [f], down [d]. Only for models with MoeConfig::expert_biases.
ExpertViews expert_biases(const ShardScope& scope, int64_t expert);

// Routed experts with a latent: they read and write z channels (MoeConfig::latent), with maps from
// and to the d channels of the residual stream. The router and the shared expert read the stream
// itself:
//   W_out · (Σ_e w_e · expert_e(W_in · x + b_in)) + b_out + shared(x)
// W_in [z, d] and W_out [d, z] are the roles latent_in and latent_out; with MlpConfig::bias there
// are biases, with the suffix _bias. W_out is linear, so each shard of a layer applies it to the
// sum of its experts, and a shard without chosen experts adds 0. b_out is added once per layer, by
// the shard that adds the shared expert, or the first of its slices. Without a latent each function
// returns its argument. Source of the formula: transformers 5.23, modeling_nemotron_h.py.

// Input of the experts, from the normed stream x: z channels.
ValueId to_latent(ShardScope& scope, ValueId x);

// The shard of the layer that adds b_out: this one or another one.
enum class LatentBias : uint8_t { here, elsewhere };

// Maps the sum of the shard's experts, z channels, to d channels of the stream.
ValueId from_latent(ShardScope& scope, ValueId sum, LatentBias bias);

// For a shard with only the shared expert: its output, plus b_out in the first slice.
ValueId with_latent_bias(ShardScope& scope, ValueId shared);

}  // namespace moec
