// The composite ops, which passes replace by general ops (ir/graph/ops.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/graph/op_enums.h"

namespace moec {
// Grouped-query attention between the projections. ir/graph/composite_operands.h names the
// operands.
//   operands: q [T, heads*head_dim], k [T, kv_heads*head_dim], v [T, kv_heads*v_dim] as token
//             tensors; v_dim may be any;
//             rope_cos, rope_sin [T, rope_dims/2] unless rope is none;
//             mask [1, 1, T, S'] added to the scores, S' the number of keys;
//             with a cache in P pages [P, 1, T, S/P];
//             q_norm, k_norm unless qk_norm is none: [head_dim], or [heads, 1] and [kv_heads, 1],
//             one number for all dims of a head;
//             k_cache [1, kv_heads, S, head_dim], v_cache [1, kv_heads, S, v_dim] unless cache is
//             none; with blend also in P pages [P, kv_heads, S/P, …], row s in page s / (S/P), for
//             targets that do not support an axis of S;
//             write_mask [P, 1, S/P, T] if cache is blend;
//             optional sinks [heads].
//   results:  out [T, heads*v_dim]; unless cache is none also k and v: the new rows
//             [1, kv_heads, T, …] (append) or the whole new cache (blend).
struct Attention {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  double scale = 1;  // multiplies the scores; usually head_dim^-1/2
  QkNorm qk_norm = QkNorm::none;
  double eps = 0;  // for the norms of q, k and v
  RopeStyle rope = RopeStyle::half;
  int64_t rope_dims = 0;  // rotated leading dims of each head
  CacheForm cache = CacheForm::none;

  bool operator==(const Attention&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("heads", self.heads);
    f("kv_heads", self.kv_heads);
    f("head_dim", self.head_dim);
    f("scale", self.scale);
    f("qk_norm", self.qk_norm);
    f("eps", self.eps);
    f("rope", self.rope);
    f("rope_dims", self.rope_dims);
    f("cache", self.cache);
  }
};

// down · act(gate · x, up · x), times sigmoid(shared_gate · x) if that operand is present.
//   operands: x, gate [f, d], up [f, d], down [d, f]; if they have biases: gate_bias [f], up_bias
//             [f], down_bias [d], added to the products; optional shared_gate [1, d]. gate
//             and gate_bias are absent if the activation has no gate.
struct GatedMlp {
  Gating gating;

  // Position of the first bias among the operands, if the op has biases.
  size_t biases_at() const { return 1 + gating.matrices(); }
  bool has_biases(size_t operands) const { return operands >= biases_at() + gating.matrices(); }
  // Position of the shared gate. The gate is present if this position is less than `operands`, the
  // number of operands.
  size_t shared_gate_at(size_t operands) const {
    return has_biases(operands) ? biases_at() + gating.matrices() : biases_at();
  }

  bool operator==(const GatedMlp&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    Gating::each_field(self.gating, f);
  }
};

// x / sqrt(mean over channels of x² + eps) ∘ w.   operands: x, w [C].
struct RmsNorm {
  double eps = 0;

  bool operator==(const RmsNorm&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("eps", self.eps);
  }
};

// Maps logits to routing weights, which are 0 for every expert that is not chosen. Experts are
// chosen by score + choice_bias; the lowest index wins ties. The weight is the score without the
// bias, renormalised, times scale. With groups > 1, only experts of the groups_kept best groups can
// be chosen.
//   operands: logits (token tensor of E channels), optional choice_bias [E], optional low half of
//             choice_bias [E], which is added to it.
struct Router {
  Score score = Score::softmax;
  int64_t top_k = 0;
  Renorm renorm = Renorm::none;
  double eps = 0;  // for renorm; sparsemixer: relative distance within which a logit is near
  double scale = 1;
  int64_t groups = 1;
  int64_t groups_kept = 1;
  GroupScore group_score = GroupScore::max;

  bool operator==(const Router&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("score", self.score);
    f("top_k", self.top_k);
    f("renorm", self.renorm);
    f("eps", self.eps);
    f("scale", self.scale);
    f("groups", self.groups);
    f("groups_kept", self.groups_kept);
    f("group_score", self.group_score);
  }
};

// Σ_e routing[first_expert + e] · (down_e · act(gate_e · x, up_e · x)), e < experts; with weight_on
// input Σ_e down_e · act(gate_e · x_e, up_e · x_e), x_e = routing[first_expert + e] · x.
//   operands: x, routing (token tensor of all E channels);
//             gate, up, down of each expert;
//             if the experts have biases: gate_bias [f], up_bias [f], down_bias [d] of each, added
//             to the products; not with weight_on input. Gates and gate biases are
//             absent if the activation has no gate.
struct SoftMoe {
  int64_t experts = 0;
  int64_t first_expert = 0;
  Gating gating;
  RoutedWeight weight_on = RoutedWeight::output;

  // Positions of the first weight and the first bias of an expert (counted from first_expert) among
  // the operands.
  size_t weights_at(int64_t expert) const {
    return 2 + gating.matrices() * static_cast<size_t>(expert);
  }
  size_t biases_at(int64_t expert) const { return weights_at(experts + expert); }
  bool has_biases(size_t operands) const { return operands > biases_at(0); }

  bool operator==(const SoftMoe&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("experts", self.experts);
    f("first_expert", self.first_expert);
    Gating::each_field(self.gating, f);
    f("weight_on", self.weight_on);
  }
};

// W · x (+ b) over the channels of a token tensor.   operands: x, W [out, in], optional b [out].
struct Linear {
  bool operator==(const Linear&) const = default;
  template <class Self, class F>
  static void each_field(Self&, F&&) {}
};

}  // namespace moec
