// The operands of gated_mlp, soft_moe, router and attention by name. T represents an operand: a
// value id or a tensor. Absent operands are T{}. ir/graph/composites.h describes the operands.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ir/graph/ops.h"

namespace moec {

// Either the weights or the biases of an MLP.
template <class T>
struct MlpParts {
  T gate{}, up{}, down{};
};

// Returns the parts that start at `position` in a list of operands. The gate is absent if `gating`
// has none.
template <class T>
MlpParts<T> mlp_parts_at(std::span<const T> operands, size_t position, const Gating& gating) {
  if (!gating.has_gate()) return {T{}, operands[position], operands[position + 1]};
  return {operands[position], operands[position + 1], operands[position + 2]};
}

template <class T>
struct GatedMlpOperands {
  T x{};
  MlpParts<T> weights, biases;
  T shared_gate{};
};

template <class T>
GatedMlpOperands<T> gated_mlp_operands(const GatedMlp& op, std::span<const T> list) {
  const size_t count = list.size(), shared_gate = op.shared_gate_at(count);
  GatedMlpOperands<T> operands{list[0], mlp_parts_at(list, 1, op.gating), {}, {}};
  if (op.has_biases(count)) operands.biases = mlp_parts_at(list, op.biases_at(), op.gating);
  if (shared_gate < count) operands.shared_gate = list[shared_gate];
  return operands;
}

template <class T>
struct SoftMoeOperands {
  T x{}, routing{};
  std::vector<MlpParts<T>> weights;  // per expert, starting with first_expert
  std::vector<MlpParts<T>> biases;   // per expert; empty if the experts have no biases
};

template <class T>
SoftMoeOperands<T> soft_moe_operands(const SoftMoe& op, std::span<const T> list) {
  SoftMoeOperands<T> operands{list[0], list[1], {}, {}};
  for (int64_t e = 0; e < op.experts; ++e) {
    operands.weights.push_back(mlp_parts_at(list, op.weights_at(e), op.gating));
    if (op.has_biases(list.size()))
      operands.biases.push_back(mlp_parts_at(list, op.biases_at(e), op.gating));
  }
  return operands;
}

// The bias is choice_bias + choice_bias_low.
template <class T>
struct RouterOperands {
  T logits{}, choice_bias{}, choice_bias_low{};
};

template <class T>
RouterOperands<T> router_operands(std::span<const T> list) {
  return {list[0], list.size() > 1 ? list[1] : T{}, list.size() > 2 ? list[2] : T{}};
}

// The operands of an attention op by name. Only this struct defines their order. T represents an
// operand: a value id, a tensor, or a position in the list.

template <class T>
struct AttentionOperands {
  T q{}, k{}, v{};
  T rope_cos{}, rope_sin{};  // unless rope is none
  T mask{};
  T q_norm{}, k_norm{};    // unless qk_norm is none
  T k_cache{}, v_cache{};  // unless cache is none
  T write_mask{};          // if cache is blend
  T sinks{};               // optional

  // Calls visit(operand) for each operand that the op has, in the order of the op's operand list.
  template <class Self, class Visit>
  static void each(Self& self, const Attention& op, bool has_sinks, Visit&& visit) {
    visit(self.q), visit(self.k), visit(self.v);
    if (op.rope != RopeStyle::none) visit(self.rope_cos), visit(self.rope_sin);
    visit(self.mask);
    if (op.qk_norm != QkNorm::none) visit(self.q_norm), visit(self.k_norm);
    if (has_cache(op.cache)) visit(self.k_cache), visit(self.v_cache);
    if (updates_cache(op.cache)) visit(self.write_mask);
    if (has_sinks) visit(self.sinks);
  }
};

// Positions of the operands in the op's list. `sinks` is set even if the op has no sinks; it equals
// the number of all other operands. Other absent operands have position 0.
inline AttentionOperands<size_t> attention_positions(const Attention& op) {
  AttentionOperands<size_t> positions;
  AttentionOperands<size_t>::each(positions, op, true,
                                  [next = size_t{0}](size_t& at) mutable { at = next++; });
  return positions;
}

// Names the operands of a complete list; absent operands are T{}.
template <class T>
AttentionOperands<T> attention_operands(const Attention& op, const std::vector<T>& list) {
  AttentionOperands<T> operands;
  const bool has_sinks = list.size() > attention_positions(op).sinks;
  AttentionOperands<T>::each(operands, op, has_sinks,
                             [&, next = size_t{0}](T& operand) mutable { operand = list[next++]; });
  return operands;
}

// The inverse of attention_operands().
template <class T>
std::vector<T> operand_list(const Attention& op, const AttentionOperands<T>& operands,
                            bool has_sinks) {
  std::vector<T> list;
  AttentionOperands<T>::each(operands, op, has_sinks,
                             [&](const T& operand) { list.push_back(operand); });
  return list;
}

}  // namespace moec
