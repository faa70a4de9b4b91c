#include "ir/analysis/fused_forms.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {

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
