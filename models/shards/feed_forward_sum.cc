#include "models/shards/feed_forward_sum.h"

#include <cmath>

#include "ir/graph/port_names.h"

namespace moec {

ValueId joined_parts(ShardScope& scope, ValueId routed, ValueId shared) {
  if (scope.model().moe.parts_normed) {
    routed = scope.norm(routed, "ffn_routed_post_norm");
    shared = scope.norm(shared, "ffn_shared_post_norm");
  }
  return scope.b.add(routed, shared, "experts_and_shared");
}

ValueId averaged(ShardScope& scope, ValueId part) {
  if (!scope.model().moe.shared_averaged) return part;
  return scope.b.mul(part, scope.b.scalar_like(part, 0.5), "averaged_part");
}

ValueId layer_end(ShardScope& scope, ValueId residual, ValueId sum) {
  Builder& b = scope.b;
  if (!scope.model().stream.layer_scale)
    return scope.add_residual(residual, sum, "ffn", kMoeOutPort);
  ValueId stream = scope.add_residual(residual, sum, "ffn", "layer_sum");
  ValueId scale =
      b.reshape(scope.weight_like(stream, scope.stored("layer_scale", {1}), "layer_scale"),
                channel_vector_dims(b.type(stream).layout, 1));
  return b.mul(stream, scale, kMoeOutPort);
}

ValueId own_router_norm(ShardScope& scope, ValueId hidden) {
  // The checkpoint's scale of the router's input serves as the weight of the RMS norm.
  WeightView scale = scope.stored("router_scale", {scope.model().hidden});
  ValueId weight = scope.weight_like(hidden, std::move(scale), "router_norm.weight");
  return scope.b.emit(RmsNorm{scope.model().norm.eps}, {hidden, weight}, "router_norm");
}

ValueId normed_router_logits(ShardScope& scope, ValueId normed) {
  const int64_t d = scope.model().hidden;
  // Folds the factor 1/√d of the router's input into the matrix. Scales in f32, because the stored
  // type can be narrower.
  WeightView map =
      then(scope.stored("router", {scope.model().moe.slots(), d}), CastStep{DType::f32});
  map = then(std::move(map), ScaleStep{1 / std::sqrt(static_cast<double>(d))});
  return scope.b.linear(normed, scope.weight_like(normed, std::move(map), "router.weight"),
                        "router");
}

}  // namespace moec
