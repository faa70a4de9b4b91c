// The operands of gated_mlp, soft_moe and router by name. T is what stands for an operand where it
// is used: a value id, a tensor. Absent operands are T{}. ir/graph/ops.h describes the operands;
// those of attention are in attention_operands.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ir/graph/ops.h"

namespace moec {

// What an MLP has of a kind: its weights or its biases.
template <class T>
struct MlpParts {
  T gate{}, up{}, down{};
};

// The parts that begin at a position in a list of operands. An MLP may have no gate.
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
  std::vector<MlpParts<T>> weights;  // by expert, counted from first_expert
  std::vector<MlpParts<T>> biases;   // the same; empty if the experts have none
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

// The bias is the sum of its two halves.
template <class T>
struct RouterOperands {
  T logits{}, choice_bias{}, choice_bias_low{};
};

template <class T>
RouterOperands<T> router_operands(std::span<const T> list) {
  return {list[0], list.size() > 1 ? list[1] : T{}, list.size() > 2 ? list[2] : T{}};
}

}  // namespace moec
