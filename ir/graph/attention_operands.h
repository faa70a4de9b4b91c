// The operands of an attention op by name: the one place that knows their order. T is what stands
// for an operand where it is used: a value id, a tensor, a position in the list of operands.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph/ops.h"

namespace moec {

template <class T>
struct AttentionOperands {
  T q{}, k{}, v{};
  T rope_cos{}, rope_sin{};  // unless rope is none
  T mask{};
  T q_norm{}, k_norm{};    // unless qk_norm is none
  T k_cache{}, v_cache{};  // unless cache is none
  T write_mask{};          // if cache is blend
  T sinks{};               // optional

  // Calls visit(operand) for each operand that the op has, in the order of its list of operands.
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

// Where each operand is in the op's list of operands. `sinks` is their position if the op has them,
// and so the number of all other operands; other absent operands have position 0.
inline AttentionOperands<size_t> attention_positions(const Attention& op) {
  AttentionOperands<size_t> positions;
  AttentionOperands<size_t>::each(positions, op, true,
                                  [next = size_t{0}](size_t& at) mutable { at = next++; });
  return positions;
}

// The operands of a list that has them all; absent operands are T{}.
template <class T>
AttentionOperands<T> attention_operands(const Attention& op, const std::vector<T>& list) {
  AttentionOperands<T> operands;
  const bool has_sinks = list.size() > attention_positions(op).sinks;
  AttentionOperands<T>::each(operands, op, has_sinks,
                             [&, next = size_t{0}](T& operand) mutable { operand = list[next++]; });
  return operands;
}

// The list that attention_operands() takes apart.
template <class T>
std::vector<T> operand_list(const Attention& op, const AttentionOperands<T>& operands,
                            bool has_sinks) {
  std::vector<T> list;
  AttentionOperands<T>::each(operands, op, has_sinks,
                             [&](const T& operand) { list.push_back(operand); });
  return list;
}

}  // namespace moec
