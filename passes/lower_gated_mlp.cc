#include "ir/graph/composite_operands.h"
#include "passes/expert_math.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

std::vector<ValueId> lower_mlp(Builder& b, const GatedMlp& mlp,
                               const std::vector<ValueId>& operands) {
  const auto [x, weights, biases, shared_gate] = gated_mlp_operands<ValueId>(mlp, operands);
  // down(activation(gate x) · up x), times sigmoid(shared_gate x) if the MLP has such a gate.
  const auto [gate, up] = gate_and_up(b, x, weights, biases);
  ValueId hidden = gated_product(b, mlp.gating, gate, up);
  if (!shared_gate.valid()) return {biased_linear(b, hidden, weights.down, biases.down, "")};
  ValueId logit = b.linear(x, shared_gate, "gate_logit");
  ValueId open = b.unary(UnaryFn::sigmoid, logit, "open");
  return {b.mul(biased_linear(b, hidden, weights.down, biases.down, "down"), open)};
}

}  // namespace

Result<Shard> lower_gated_mlp(const Shard& shard, PassContext&) {
  return rewrite_each<GatedMlp>(shard, Form::lowered, own_scope, lower_mlp);
}

}  // namespace moec
