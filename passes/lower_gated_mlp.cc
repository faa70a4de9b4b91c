#include "passes/expert_math.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

std::vector<ValueId> lower_mlp(Builder& b, const GatedMlp& mlp,
                               const std::vector<ValueId>& operands) {
  auto project = [&](ValueId input, size_t part, std::string name) {
    const bool biased = GatedMlp::has_biases(operands.size());
    ValueId bias = biased ? operands[GatedMlp::kBiases + part] : ValueId();
    return biased_linear(b, input, operands[1 + part], bias, std::move(name));
  };
  ValueId x = operands[0];
  ValueId gate = project(x, 0, "gate"), up = project(x, 1, "up");
  ValueId hidden = gated_product(b, mlp.gating, gate, up);
  const size_t shared_gate = GatedMlp::shared_gate_at(operands.size());
  if (operands.size() == shared_gate) return {project(hidden, 2, "")};
  ValueId logit = b.linear(x, operands[shared_gate], "gate_logit");
  ValueId open = b.unary(UnaryFn::sigmoid, logit, "open");
  return {b.mul(project(hidden, 2, "down"), open)};
}

}  // namespace

Result<Shard> lower_gated_mlp(const Shard& shard, PassContext&) {
  return rewrite_each<GatedMlp>(shard, Form::lowered, own_scope, lower_mlp);
}

}  // namespace moec
