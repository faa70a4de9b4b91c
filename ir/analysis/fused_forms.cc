#include "ir/analysis/fused_forms.h"

#include <algorithm>

namespace moec {
namespace {

// The producer of the value; null for an input.
const Op* producer_of(const Shard& shard, ValueId value) {
  const OpId producer = shard.values[value].producer;
  return producer.valid() ? &shard.ops[producer] : nullptr;
}

// True for a convolution with one result per channel (one token), or with several taps.
bool is_fused_conv(const Shard& shard, const Op& op, ValueId value) {
  if (!std::holds_alternative<Conv>(op.data)) return false;
  const Dims& results = shard.type(value).dims;
  const Dims& weight = shard.type(op.operands[1]).dims;
  return results.at(2) * results.at(3) == 1 || weight.at(2) * weight.at(3) > 1;
}

bool is_product(const Shard& shard, ValueId value) {
  const Op* op = producer_of(shard, value);
  return op != nullptr &&
         (std::holds_alternative<MatMul>(op->data) || is_fused_conv(shard, *op, value));
}

// Returns true if `value` is a constant and each of its elements is at least `least`.
bool is_constant_from(const Shard& shard, ValueId value, int64_t least) {
  const auto* constant = shard.producer_as<Constant>(value);
  return constant != nullptr &&
         std::all_of(constant->values.begin(), constant->values.end(),
                     [&](double each) { return each >= static_cast<double>(least); });
}

// The value before any reshapes and transposes.
ValueId origin_of(const Shard& shard, ValueId value) {
  const Op* op = producer_of(shard, value);
  // Reshapes and transposes only move elements, so the encoding of the weight still applies.
  const bool moves = op != nullptr && (std::holds_alternative<Reshape>(op->data) ||
                                       std::holds_alternative<Transpose>(op->data));
  return moves ? origin_of(shard, op->operands.front()) : value;
}

// The quantized weight operand of a matmul, or an invalid id.
ValueId weight_of_codes(const Shard& shard, const Op& op) {
  if (!std::holds_alternative<MatMul>(op.data)) return {};
  const ValueId value = origin_of(shard, op.operands.back());
  const auto* weight = shard.producer_as<Weight>(value);
  return weight != nullptr && !is_plain(weight->encoding) ? value : ValueId{};
}

}  // namespace

bool is_projection(const Shard& shard, ValueId value) {
  if (is_product(shard, value)) return true;
  const Op* op = producer_of(shard, value);
  const auto* sum = op != nullptr ? std::get_if<Binary>(&op->data) : nullptr;
  return sum != nullptr && sum->fn == BinaryFn::add &&
         std::any_of(op->operands.begin(), op->operands.end(),
                     [&](ValueId term) { return is_product(shard, term); });
}

bool is_narrow_slice(const Shard& shard, const Op& op, int64_t most) {
  const auto* slice = std::get_if<Slice>(&op.data);
  if (slice == nullptr || slice->begin != 0 || slice->size > most) return false;
  const auto& [dtype, dims, layout] = shard.type(op.operands.front());
  return layout == Layout::plain && dims.rank() == 4 && slice->axis == 3 && dims.at(0) == 1 &&
         dims.at(2) == 1 && slice->size < dims.at(3) && dims.at(3) % slice->size == 0;
}

bool is_exp_below_limit(const Shard& shard, const Op& op, int64_t limit) {
  const auto* unary = std::get_if<Unary>(&op.data);
  if (unary == nullptr || unary->fn != UnaryFn::exp) return false;
  const Op* bound = producer_of(shard, op.operands.front());
  const auto* binary = bound != nullptr ? std::get_if<Binary>(&bound->data) : nullptr;
  // An operand that is not a maximum has no known lower bound.
  return binary == nullptr || binary->fn != BinaryFn::max ||
         std::none_of(bound->operands.begin(), bound->operands.end(),
                      [&](ValueId term) { return is_constant_from(shard, term, -limit); });
}

bool is_coded_matmul(const Shard& shard, const Op& op) {
  return weight_of_codes(shard, op).valid();
}

bool is_coded_unevenly(const Shard& shard, const Op& op) {
  const ValueId weight = weight_of_codes(shard, op);
  if (!weight.valid()) return false;
  const Dims block = block_of(shard.producer_as<Weight>(weight)->encoding);
  // The inputs lie along the last axis of the weight. A partial block at its end needs padding.
  return shard.type(weight).dims.back() % block.back() != 0;
}

}  // namespace moec
