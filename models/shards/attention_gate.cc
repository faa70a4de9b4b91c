#include "models/shards/attention_gate.h"

#include "models/shards/decaying_mixer.h"
#include "models/shards/head_grid.h"

namespace moec {
namespace {

// The queries (half 0) or the gates (half 1) of a role q that contains both, alternating by head.
ValueId half_of_q(ShardScope& scope, ValueId x, int64_t half, const std::string& name) {
  const AttentionConfig& attention = scope.attention();
  const int64_t d = scope.model().hidden, dims = attention.head_dim;
  const int64_t all = attention.heads * dims;
  WeightView both =
      then(scope.stored("q", {2 * all, d}), ReshapeStep{{attention.heads, 2 * dims, d}});
  both = then(then(std::move(both), SliceStep{1, half * dims, dims}), ReshapeStep{{all, d}});
  std::vector<ValueId> operands = {x, scope.weight_like(x, std::move(both), name + ".weight")};
  if (attention.qkv_bias) {
    WeightView bias =
        then(scope.stored("q_bias", {2 * all}), ReshapeStep{{attention.heads, 2 * dims}});
    bias = then(then(std::move(bias), SliceStep{1, half * dims, dims}), ReshapeStep{{all}});
    operands.push_back(scope.weight_like(x, std::move(bias), name + ".bias"));
  }
  return scope.b.emit(Linear{}, std::move(operands), name);
}

// The factors of attention's output.
ValueId share_of(ShardScope& scope, ValueId gate, GateFn function) {
  switch (function) {
    case GateFn::sigmoid:
      return scope.b.unary(UnaryFn::sigmoid, gate, "gate.share");
    case GateFn::softplus:
      break;
  }
  return softplus(scope.b, gate);
}

}  // namespace

ValueId queries_beside_gates(ShardScope& scope, ValueId normed) {
  return half_of_q(scope, normed, 0, "q");
}

ValueId gated_attention(ShardScope& scope, ValueId normed, ValueId attended) {
  const AttentionConfig& attention = scope.attention();
  Builder& b = scope.b;
  if (attention.projections == Projections::gate_in_q)
    return b.mul(attended, share_of(scope, half_of_q(scope, normed, 1, "gate"), GateFn::sigmoid),
                 "attended_gated");
  if (!attention.scaling.gate) return attended;
  const Type like = b.type(attended);  // a copy: adding an op may reallocate the builder's types
  const int64_t gates = attention.scaling.gate->per_head ? attention.heads : channels_of(like);
  ValueId share = share_of(scope, scope.linear(normed, {"attn_gate", gates}, "gate"),
                           attention.scaling.gate->function);
  if (!attention.scaling.gate->per_head) return b.mul(attended, share, "attended_gated");
  ValueId grid = b.mul(to_grid(b, attended, attention.heads), to_grid(b, share, attention.heads));
  return from_grid(b, grid, like, "attended_gated");
}

}  // namespace moec
