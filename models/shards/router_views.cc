#include "models/shards/router_views.h"

#include <numbers>

#include "ir/graph/port_names.h"
#include "models/shards/layer_ports.h"

namespace moec {

WeightView router_matrix(const ShardScope& scope) {
  const int64_t slots = scope.model().moe.slots(), d = scope.model().hidden;
  if (!scope.model().names.has("router_in_out")) return scope.stored("router", {slots, d});
  return then(scope.stored("router_in_out", {d, slots}), PermuteStep{{1, 0}});
}

WeightView router_choice_bias(const ShardScope& scope) {
  const TensorNames& names = scope.model().names;
  const int64_t slots = scope.model().moe.slots();
  // ERNIE 4.5 VL stores a row for the text experts, then one for the vision experts.
  if (names.has("router_choice_bias_rows"))
    return then(then(scope.stored("router_choice_bias_rows", {2, slots}), SliceStep{0, 0, 1}),
                ReshapeStep{{slots}});
  if (names.has("router_choice_bias_row"))
    return then(scope.stored("router_choice_bias_row", {1, slots}), ReshapeStep{{slots}});
  return scope.stored("router_choice_bias", {slots});
}

namespace {

ValueId gelu(Builder& b, ValueId x, const std::string& name) {
  // gelu(x) = x · (1 + erf(x / √2)) / 2.
  ValueId bent =
      b.unary(UnaryFn::erf, b.mul(x, b.scalar_like(x, 1 / std::numbers::sqrt2)), name + ".erf");
  ValueId share = b.mul(b.add(bent, b.scalar_like(x, 1)), b.scalar_like(x, 0.5), name + ".share");
  return b.mul(x, share, name);
}

ValueId hidden_layer(ShardScope& scope, ValueId x, const std::string& role) {
  const int64_t width = scope.model().moe.router_hidden;
  return gelu(scope.b, scope.linear(x, {role, width, true}, role), role + ".gelu");
}

}  // namespace

ValueId earlier_router_state(ShardScope& scope) {
  // An invalid id means that the layer has no earlier state.
  if (!scope.layer().takes_router_state) return {};
  return scope.b.input(kEarlierRouterState, scope.token_type_of(scope.model().moe.router_hidden));
}

ValueId router_mlp(ShardScope& scope, ValueId x, ValueId earlier) {
  Builder& b = scope.b;
  const MoeConfig& moe = scope.model().moe;
  ValueId state = scope.linear(x, {"router_down", moe.router_hidden, true}, "router_down");
  if (earlier.valid()) {
    // The edge between layers has the type of the build, but the router can compute in f32.
    earlier = scope.to_dtype(earlier, b.type(state).dtype);
    ValueId scale = scope.channel_vector(state, "router_state_scale", "router_state.scale");
    state = b.add(state, b.mul(earlier, scale));
  }
  const DType dtype = scope.options().dtype;
  // The output is named kRouterState, so a wider value before its cast needs another name.
  b.rename(state, b.type(state).dtype == dtype ? kRouterState : "wide_router_state");
  if (hands_on_router_state(scope.model(), scope.decl.layer))
    b.output(kRouterState, scope.to_dtype(state, dtype, kRouterState));
  ValueId hidden = scope.rms_norm(state, "router_norm", scope.model().norm.eps);
  hidden = hidden_layer(scope, hidden, "router_fc1");
  hidden = hidden_layer(scope, hidden, "router_fc2");
  return scope.linear(hidden, {"router", moe.slots()}, "router");
}

}  // namespace moec
