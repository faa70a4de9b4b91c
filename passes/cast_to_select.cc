#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

// A tensor of x's shape filled with `value`; NaN where x is NaN. Computed from x by min and max,
// because on the target only a result that depends on x has x's shape.
ValueId filled_like(Builder& b, ValueId x, double value) {
  ValueId wanted = b.scalar_like(x, value);
  return b.binary(BinaryFn::max, b.binary(BinaryFn::min, x, wanted), wanted);
}

// In Core ML the shape of a select is the broadcast shape of its branches, regardless of the
// condition. Each branch therefore gets the shape of one side of the comparison that computes the
// condition.
std::vector<ValueId> to_select(Builder& b, const Cast& cast, const std::vector<ValueId>& operands) {
  if (!b.shard().producer_as<Compare>(operands[0])) return {b.emit(cast, operands)};
  const Op& compare = b.shard().ops[b.shard().values[operands[0]].producer];
  const ValueId left = compare.operands[0], right = compare.operands[1];
  if (b.type(left).dtype != cast.dtype) return {b.emit(cast, operands)};
  ValueId one = filled_like(b, left, 1), zero = filled_like(b, right, 0);
  return {b.select(operands[0], one, zero)};
}

}  // namespace

Result<Shard> cast_to_select(const Shard& shard, PassContext&) {
  return rewrite_each<Cast>(shard, shard.form, no_scope, to_select);
}

}  // namespace moec
