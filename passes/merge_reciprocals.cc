#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

// Returns x if `value` is the reciprocal of x; else an invalid id.
ValueId inverse_of(const Shard& shard, ValueId value) {
  const auto* unary = shard.producer_as<Unary>(value);
  if (unary == nullptr || unary->fn != UnaryFn::reciprocal) return {};
  return shard.ops[shard.values[value].producer].operands.front();
}

std::vector<ValueId> divided(Builder& b, const Binary& op, const std::vector<ValueId>& operands) {
  if (op.fn != BinaryFn::mul) return {b.binary(op.fn, operands[0], operands[1])};
  // Multiplication commutes, so either operand can be the reciprocal.
  for (size_t i = 0; i < 2; ++i)
    if (ValueId divisor = inverse_of(b.shard(), operands[i]); divisor.valid())
      return {b.div(operands[1 - i], divisor)};
  return {b.binary(op.fn, operands[0], operands[1])};
}

}  // namespace

Result<Shard> merge_reciprocals(const Shard& shard, PassContext&) {
  return rewrite_each<Binary>(shard, shard.form, no_scope, divided);
}

}  // namespace moec
