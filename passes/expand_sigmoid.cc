#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {

// f16 keeps the op: exp(−x) overflows for x below −11.1, where sigmoid(x) is not yet 0 in f16.
static std::vector<ValueId> expanded(Builder& b, const Unary& op,
                                     const std::vector<ValueId>& operands) {
  ValueId x = operands.front();
  if (op.fn != UnaryFn::sigmoid || b.type(x).dtype != DType::f32) return {b.unary(op.fn, x)};
  ValueId power = b.unary(UnaryFn::exp, b.unary(UnaryFn::neg, x));
  return {b.unary(UnaryFn::reciprocal, b.add(power, b.scalar_like(x, 1)))};
}

Result<Shard> expand_sigmoid(const Shard& shard, PassContext&) {
  return rewrite_each<Unary>(shard, shard.form, no_scope, expanded);
}

}  // namespace moec
