#include "models/shards/expert_latent.h"

namespace moec {

static bool adds_bias(const ShardScope& scope) {
  const ModelConfig& model = scope.model();
  return model.moe.latent > 0 && model.mlp.bias && scope.decl.slice == 0;
}

ValueId to_latent(ShardScope& scope, ValueId x) {
  const ModelConfig& model = scope.model();
  if (model.moe.latent == 0) return x;
  return scope.linear(x, {"latent_in", model.moe.latent, model.mlp.bias}, "latent_in");
}

ValueId from_latent(ShardScope& scope, ValueId sum, LatentBias bias) {
  if (scope.model().moe.latent == 0) return sum;
  const bool here = bias == LatentBias::here && adds_bias(scope);
  return scope.linear(sum, {"latent_out", scope.model().hidden, here}, "latent_out");
}

ValueId with_latent_bias(ShardScope& scope, ValueId shared) {
  if (!adds_bias(scope)) return shared;
  ValueId bias = scope.channel_vector(shared, "latent_out_bias", "latent_out.bias");
  return scope.b.add(shared, bias, "shared_and_latent_bias");
}

}  // namespace moec
