#include "passes/expert_math.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

std::vector<ValueId> lower(Builder& b, const GatedMlp& mlp, const std::vector<ValueId>& operands) {
  ValueId x = operands[0];
  ValueId gate = b.linear(x, operands[1], "gate");
  ValueId up = b.linear(x, operands[2], "up");
  ValueId hidden = gated_product(b, mlp.activation, gate, up);
  if (operands.size() == 4) return {b.linear(hidden, operands[3])};
  ValueId open = b.unary(UnaryFn::sigmoid, b.linear(x, operands[4], "gate_logit"), "open");
  return {b.mul(b.linear(hidden, operands[3], "down"), open)};
}

}  // namespace

Result<Shard> lower_gated_mlp(const Shard& shard, PassContext&) {
  return rewrite_each<GatedMlp>(shard, Form::lowered, own_scope, lower);
}

}  // namespace moec
