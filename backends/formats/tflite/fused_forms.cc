#include "backends/formats/tflite/fused_forms.h"

#include <numbers>

#include "backends/emit/shard_facts.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

// True if the value is the number, rounded to the value's type, as a constant scalar.
bool is_scalar(const Shard& shard, ValueId value, double number) {
  const auto* constant = shard.producer_as<Constant>(value);
  if (!constant || constant->type.rank() != 0) return false;
  const auto rounded = [&](double x) {
    return round_to(constant->type.dtype, static_cast<float>(x));
  };
  return rounded(constant->values.front()) == rounded(number);
}

// The other operand of a binary op with function `fn` whose right operand is the number; an invalid
// id for other values.
ValueId left_of(const Shard& shard, ValueId value, BinaryFn fn, double number) {
  const auto* binary = shard.producer_as<Binary>(value);
  if (!binary || binary->fn != fn) return {};
  const Op& op = shard.ops[shard.values[value].producer];
  return is_scalar(shard, op.operands[1], number) ? op.operands[0] : ValueId{};
}

// The operands of an op that a file needs, without those that a fused form replaces.
std::vector<ValueId> needed_operands(const Shard& shard, const Op& op) {
  if (const ValueId x = gelu_operand(shard, op); x.valid()) return {x};
  if (const ValueId weight = fully_connected_weight(shard, op); weight.valid())
    return {op.operands[0], weight};
  return op.operands;
}

}  // namespace

ValueId fully_connected_weight(const Shard& shard, const Op& op) {
  if (!std::holds_alternative<MatMul>(op.data)) return {};
  return turned_weight(shard, op.operands[1]);
}

ValueId gelu_operand(const Shard& shard, const Op& op) {
  const auto* product = std::get_if<Binary>(&op.data);
  if (!product || product->fn != BinaryFn::mul) return {};
  const ValueId x = op.operands[0];
  const ValueId sum = left_of(shard, op.operands[1], BinaryFn::mul, 0.5);
  if (!sum.valid()) return {};
  const ValueId erf = left_of(shard, sum, BinaryFn::add, 1);
  const auto* unary = erf.valid() ? shard.producer_as<Unary>(erf) : nullptr;
  if (!unary || unary->fn != UnaryFn::erf) return {};
  const ValueId bent = shard.ops[shard.values[erf].producer].operands[0];
  return left_of(shard, bent, BinaryFn::mul, 1 / std::numbers::sqrt2) == x ? x : ValueId{};
}

IdMap<OpId, uint8_t> needed_ops(const Shard& shard) {
  IdMap<OpId, uint8_t> needed(shard.ops.size());
  const auto need = [&](ValueId value) {
    if (const OpId producer = shard.values[value].producer; producer.valid())
      needed[producer] = true;
  };
  for (const Output& output : shard.outputs) need(output.value);
  for (size_t i = shard.ops.size(); i-- > 0;)
    if (const OpId id{static_cast<uint32_t>(i)}; needed[id])
      for (const ValueId operand : needed_operands(shard, shard.ops[id])) need(operand);
  return needed;
}

}  // namespace moec
