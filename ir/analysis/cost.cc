#include "ir/analysis/cost.h"

#include <algorithm>

#include "ir/graph/composite_operands.h"

namespace moec {
namespace {

// Multiply-adds: `dense` with all experts, `active` with the experts that a token chooses.
struct Macs {
  int64_t dense = 0, active = 0;
};

struct OpMacs {
  const Shard& shard;
  const Op& op;
  int64_t top_k, all_experts;

  const Type& operand(size_t i) const { return shard.type(op.operands[i]); }
  const Type& result() const { return shard.type(op.results[0]); }
  static Macs both(int64_t macs) { return {macs, macs}; }

  // Each element of the result is a dot product over dims[1], the inputs of the matrix.
  Macs operator()(const Linear&) const { return both(result().elements() * operand(1).dims[1]); }
  Macs operator()(const Conv&) const {
    // The taps lie along axis 2 or 3, depending on the layout; the other of these axes has size 1.
    const Dims& kernel = operand(1).dims;
    return both(result().elements() * kernel[1] * kernel[2] * kernel[3]);
  }
  Macs operator()(const MatMul&) const {
    return both(result().elements() * operand(0).dims.back());
  }
  // As for SoftMoe: a token chooses top_k of all_experts.
  Macs operator()(const Moe&) const {
    const int64_t macs = (operand(2).elements() + operand(3).elements()) * tokens_of(operand(0));
    return {macs, macs * top_k / all_experts};
  }
  Macs operator()(const GatedMlp&) const {
    int64_t macs = 0;
    for (size_t i = 1; i < op.operands.size(); ++i)
      // Matrices have rank 2; biases have rank 1 and need no multiplications.
      if (operand(i).rank() == 2) macs += operand(i).elements();
    return both(macs * tokens_of(operand(0)));
  }
  Macs operator()(const SoftMoe& moe) const {
    const auto matrices = static_cast<int64_t>(moe.gating.matrices());
    // All matrices of an expert have the same number of elements. The first one is operand 2.
    const int64_t expert = matrices * operand(2).elements() * tokens_of(operand(0));
    // A token chooses top_k of all_experts; on average, the same share of this shard's experts.
    return {expert * moe.experts, expert * moe.experts * top_k / all_experts};
  }
  Macs operator()(const Attention& attention) const {
    const auto at = attention_positions(attention);
    const int64_t v_dim = channels_of(operand(at.v)) / attention.kv_heads;
    // Scores take head_dim and sums of values take v_dim multiplications per element of the mask.
    // The mask has an element per token and key.
    return both(attention.heads * (attention.head_dim + v_dim) * operand(at.mask).elements());
  }
  // These ops contain no contraction.
  Macs operator()(const OneOf<RmsNorm, Router> auto&) const { return {}; }
  Macs operator()(const InGroup<OpGroup::source, OpGroup::elementwise, OpGroup::along_axis,
                                OpGroup::shape, OpGroup::state> auto&) const {
    return {};
  }
};

// True if the value is a weight, a constant, or the transpose of an encoded weight, which targets
// fold into the weight.
bool is_folded(const Shard& shard, ValueId value) {
  if (shard.producer_as<Transpose>(value))
    value = shard.ops[shard.values[value].producer].operands[0];
  return is_source(shard, value);
}

}  // namespace

std::map<std::string, int64_t> op_histogram(const Shard& shard) {
  std::map<std::string, int64_t> histogram;
  for (const Op& op : shard.ops) ++histogram[std::string(mnemonic(op.data))];
  return histogram;
}

// Bytes of the expert weights that a soft_moe or a moe reads; 0 for any other op.
static int64_t expert_bytes(const Shard& shard, const Op& op) {
  if (!std::holds_alternative<SoftMoe>(op.data) && !std::holds_alternative<Moe>(op.data)) return 0;
  int64_t bytes = 0;
  for (size_t i = 2; i < op.operands.size(); ++i) bytes += weight_bytes(shard, op.operands[i]);
  return bytes;
}

ShardCost count_cost(const Shard& shard, int64_t top_k, int64_t all_experts) {
  ShardCost cost;
  int64_t experts = 0;
  for (const Op& op : shard.ops) {
    const Macs macs = std::visit(OpMacs{shard, op, top_k, all_experts}, op.data);
    cost.macs_dense += macs.dense;
    cost.macs_active += macs.active;
    experts += expert_bytes(shard, op);
  }
  cost.bytes_dense = weight_bytes(shard);
  // Multiplies before it divides, so that only the final quotient is truncated.
  cost.bytes_active = cost.bytes_dense - experts + experts * top_k / all_experts;
  return cost;
}

int64_t count_macs(const Shard& shard, const Op& op) {
  // `dense` does not depend on top_k and all_experts, so both can be 1.
  return std::visit(OpMacs{shard, op, 1, 1}, op.data).dense;
}

// Sum of bytes_of(value) over the results of all ops.
template <class BytesOf>
static int64_t bytes_of_results(const Shard& shard, BytesOf bytes_of) {
  int64_t bytes = 0;
  for (const Op& op : shard.ops)
    for (ValueId result : op.results) bytes += bytes_of(result);
  return bytes;
}

int64_t weight_bytes(const Shard& shard, CodeFormOf form) {
  return bytes_of_results(shard, [&](ValueId value) { return weight_bytes(shard, value, form); });
}

int64_t weight_bytes(const Shard& shard, ValueId value, CodeFormOf form) {
  const auto* weight = shard.producer_as<Weight>(value);
  if (!weight) return 0;
  const Type& type = shard.type(value);
  return encoded_bytes(weight->encoding, type,
                       form ? form(weight->encoding, type) : CodeForm::signed_codes);
}

int64_t encoded_bytes(const Encoding& encoding, const Type& type, CodeForm form) {
  if (is_plain(encoding)) return type.bytes();
  int64_t bytes = 0;
  for (const StoredPart& part : stored_parts(encoding, type, form)) bytes += part.type.bytes();
  return bytes;
}

static bool decodes(const WeightView& view) {
  return std::any_of(view.steps.begin(), view.steps.end(), [](const ViewStep& step) {
    return std::holds_alternative<UnpackStep>(step) || std::holds_alternative<DequantStep>(step) ||
           std::holds_alternative<LutStep>(step) || std::holds_alternative<UnblockStep>(step);
  });
}

int64_t filed_weight_bytes(const Shard& shard) {
  return bytes_of_results(shard, [&](ValueId value) { return filed_weight_bytes(shard, value); });
}

int64_t filed_weight_bytes(const Shard& shard, ValueId value) {
  const auto* weight = shard.producer_as<Weight>(value);
  if (!weight || !decodes(weight->view)) return weight_bytes(shard, value);
  // for_each_tensor() also visits scales and zero points, which the file stores as tensors.
  int64_t bytes = 0;
  for_each_tensor(weight->view,
                  [&](const TensorSource&, const Type& type) { bytes += type.bytes(); });
  return bytes;
}

int64_t peak_activation_bytes(const Shard& shard) {
  // Outputs count as uses, so an output never becomes dead.
  IdMap<ValueId, uint32_t> uses = count_uses(shard);
  int64_t live = 0;
  for (ValueId input : shard.inputs) live += shard.type(input).bytes();
  int64_t peak = live;
  for (const Op& op : shard.ops) {
    // Weights and constants are not activations: they exist during the whole run.
    if (!op.results.empty() && is_folded(shard, op.results[0])) continue;
    // Results are added before operands are removed: an op needs both at the same time.
    for (ValueId result : op.results) live += shard.type(result).bytes();
    peak = std::max(peak, live);
    for (ValueId operand : op.operands) {
      if (--uses[operand] == 0 && !is_folded(shard, operand)) live -= shard.type(operand).bytes();
    }
  }
  return peak;
}

}  // namespace moec
