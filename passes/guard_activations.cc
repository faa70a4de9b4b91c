#include "ir/analysis/fused_forms.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {

namespace {

// Representable in f16, and so low that sigmoid is 0 and tanh is -1 for all values up to it.
constexpr double kFloor = -60000;

std::vector<ValueId> guarded(Builder& b, const Unary& op, const std::vector<ValueId>& operands) {
  ValueId x = operands.front();
  const bool saturates = op.fn == UnaryFn::sigmoid || op.fn == UnaryFn::tanh;
  if (saturates && is_projection(b.shard(), x))
    x = b.binary(BinaryFn::max, x, b.scalar_like(x, kFloor));
  return {b.unary(op.fn, x)};
}

}  // namespace

Result<Shard> guard_activations(const Shard& shard, PassContext&) {
  return rewrite_each<Unary>(shard, shard.form, no_scope, guarded);
}

Result<Shard> bound_exponents(const Shard& shard, PassContext& context) {
  const int64_t limit = context.options.target.limits.exp_below;
  auto bounded = [limit](Builder& b, const Unary& op, const std::vector<ValueId>& operands) {
    ValueId x = operands.front();
    if (is_exp_below_limit(b.shard(), Op{op, operands, {}}, limit))
      x = b.binary(BinaryFn::max, x, b.scalar_like(x, -static_cast<double>(limit)));
    return std::vector{b.unary(op.fn, x)};
  };
  return rewrite_each<Unary>(shard, shard.form, no_scope, bounded);
}

}  // namespace moec
