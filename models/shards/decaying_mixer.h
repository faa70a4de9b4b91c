// Common parts of mixers whose heads each keep a matrix that decays per token: the tensors of
// heads, the decays of a step, and the state after it.
//
// Tensors of heads are [key heads, value heads of each, dims, tokens], in the type of the
// recurrence.
#pragma once

#include <cstdint>
#include <string>

#include "models/shards/shard_scope.h"

namespace moec {

// Token mixers other than attention: a convolution over the last tokens and, for all except
// short_conv, a recurrent state. They replace attention in a layer: norm, mixer, residual.
//
// short_conv (LFM2), with three maps B, C, X of the normed input:
//   u = B ∘ X; y = out(C ∘ conv(u)), conv over each channel.
//
// gated_delta (Gated DeltaNet, arXiv 2412.06464; Qwen3-Next), per value head and its key head:
//   q, k, v = silu(conv(qkv)); q and k are divided by their lengths, q also by √key_dim;
//   β = sigmoid(b); g = −exp(decay) · softplus(a + decay_bias)
//   S ← e^g · S;  S ← S + β (v − S k) kᵀ;  o = S q, of a state S [value_dim, key_dim]
//   y = out(norm(o) ∘ silu(z)), the norm over the channels of a head.
// A step of several tokens in matrix form, with tokens as columns. G is the running sum of g,
// D[j,i] = exp(G_i − G_j) for j ≤ i, A[j,i] = β_i (k_j·k_i) D[j,i] for j < i, X = (I + A)⁻¹:
//   U = (β ∘ (V − e^G ∘ S K)) X;  O = e^G ∘ S Q + U (KᵀQ ∘ D)
//   S' = e^(G_T) S + (U ∘ e^(G_T − G)) Kᵀ
// X is computed by doubling blocks: X ← X − X (A ∘ M_b) X for b = 1, 2, 4 and so on. M_b selects
// pairs of a token in the first half and one in the second half of a run of 2b tokens. Unlike a
// product of powers of A, it is accurate for repeated keys. Padding has β = 0 and g = 0, and
// changes nothing.
//
// ssd (Mamba-2, arXiv 2405.21060; Granite 4.0 H, Nemotron 3), per head, with B and C of its group
// of heads:
//   x, B, C = silu(conv(xBC)); dt = softplus(dt + decay_bias); g = −exp(decay) · dt
//   S ← e^g · S + dt · x Bᵀ;  y = S C + skip · x, of a state S [value_dim, key_dim]
//   y = out(norm(y ∘ silu(z))), the norm over the channels of a group.
// A step of several tokens, with G and D as above and U = dt ∘ X:
//   Y = e^G ∘ S C + U (BᵀC ∘ D) + skip · X;  S' = e^(G_T) S + (U ∘ e^(G_T − G)) Bᵀ
// Padding has dt = 0.
//
// kimi_delta (Kimi Delta Attention, arXiv 2510.26692; Kimi-Linear, Ling 3.0) is gated_delta with a
// log decay g per channel of the keys, and as many key heads as value heads:
//   g = −exp(decay) · softplus(f + decay_bias), or least · sigmoid(exp(decay) · (f + decay_bias))
//   S ← S diag(e^g);  S ← S + β (v − S k) kᵀ;  o = S q;  y = out(norm(o) ∘ sigmoid(z))
// In matrix form, with G the running sum of g per channel:
//   U = (β ∘ (V − S (K ∘ e^G))) X
//   O = S (Q ∘ e^G) + U P
//   S' = S diag(e^(G_T)) + U (K ∘ e^(G_T − G))ᵀ
//   A[j,i] = β_i Σ_c k_jc k_ic e^(G_ic − G_jc) for j < i
//   P[j,i] = Σ_c k_jc q_ic e^(G_ic − G_jc) for j ≤ i
// The decay between two tokens is a vector here, so A has no common factor D. Each pair j < i
// belongs to one M_b, and the middle m of its run of 2b lies between its tokens. The pairs of M_b
// are therefore matrix products, (K ∘ e^(G_m − G))ᵀ (K ∘ e^(G − G_m)). Their exponents are sums of
// log decays: at most 0, and without cancellation.

// Inputs of a mixer in addition to the residual stream.
struct EarlierTokens {
  ValueId history;  // convolution inputs of the last history() tokens before the step
  ValueId state;    // if there is one: RecurrentConfig::state(), in the type of the recurrence
  ValueId fed;      // with a state: token tensor of one channel, 1 for tokens and 0 for padding
};

struct MixedTokens {
  ValueId out;          // token tensor of the hidden size
  ValueId new_history;  // convolution inputs of the step: channels of RecurrentConfig
  ValueId new_state;    // if there is one
};

// log(1 + e^x), without overflow or cancellation: max(x, 0) + log(1 + e) with e = exp(−|x|). The
// sum 1 + e absorbs a small e by rounding, so log(1 + e) is computed as 2 artanh(s) with
// s = e / (2 + e) ≤ 1/3. The series is 2 s Σ s^2k / (2k + 1), with 4 terms in f16 and 8 in f32.
// Largest relative error over x in [−9, 20]: 2e-3 in f16, 4e-7 in f32. Below −9.7, e is subnormal
// in f16: 5e-3 to −12, 4e-2 to −14.
ValueId softplus(Builder& b, ValueId x);

// The element type of the recurrence: f32, unless the target does not support casts.
DType recurrence_type(const BuildOptions& options);

// `normed` is the layer's input after its norm.
MixedTokens short_convolution(ShardScope& scope, ValueId normed, const EarlierTokens& earlier);
MixedTokens gated_delta(ShardScope& scope, ValueId normed, const EarlierTokens& earlier);
MixedTokens state_space(ShardScope& scope, ValueId normed, const EarlierTokens& earlier);
MixedTokens kimi_delta(ShardScope& scope, ValueId normed, const EarlierTokens& earlier);

class DecayingMixer {
 protected:
  static constexpr int64_t kDimAxis = 2, kTimeAxis = 3;

  // Numbers per value head and token, [.., 1, T], unless stated otherwise.
  struct Decay {
    ValueId rate;         // weight of a token's update of the state
    ValueId since_start;  // e^G, of the running sum G of the log decays
    ValueId to_end;       // e^(G_T − G); none for one token
    ValueId whole;        // e^(G_T), [.., 1, 1]
    ValueId between;      // D[j,i] = e^(G_i − G_j) for j ≤ i, [.., T, T]; none for one token
  };

  DecayingMixer(ShardScope& scope, ValueId normed, const EarlierTokens& earlier);

  int64_t value_channels() const { return config_.value_heads * config_.value_dim; }
  int64_t key_channels() const { return config_.key_heads * config_.key_dim; }
  ValueId scalar(ValueId like, double value) { return b_.scalar_like(like, value); }
  ValueId exp(ValueId x, const std::string& name = {}) { return b_.unary(UnaryFn::exp, x, name); }
  ValueId silu(ValueId x, const std::string& name);
  // The product of `matrix` and the normed input.
  ValueId mapped(WeightView matrix, const std::string& name);
  // The convolution of `fresh` over the tokens, after its silu. Its weights [channels, 1, taps] are
  // `taps`, by default those of the role mixer_conv.
  ValueId convolution_of(ValueId fresh, const std::string& name);
  ValueId convolution_of(ValueId fresh, WeightView taps, const std::string& name);

  // The channels of a token tensor as heads.
  ValueId heads_of(ValueId x, int64_t inner, int64_t dims, const std::string& name);
  // The value heads as a token tensor of the recurrence's type, in the layout of convolutions.
  ValueId tokens_of_heads(ValueId heads);
  // A token tensor in the element type and the layout of the shard.
  ValueId as_in_shard(ValueId tokens);
  // The role's vector, one number per value head.
  ValueId head_vector(const std::string& role);

  // 1 for tokens, 0 for padding.
  ValueId fed();
  // −exp(mixer_decay) · rate: the log decay of a token, where `rate` is 0 for padding.
  ValueId log_decay(ValueId rate);
  // The decays of a step from the log decays of its tokens.
  Decay decays(ValueId rate, ValueId log_decays);

  // KᵀQ ∘ D: the weight of each update in the output of each token.
  ValueId attended(ValueId k_rows, ValueId q, const Decay& decay);
  // The state after the step: the decayed state plus `update` [.., value dim, T] times k_rows.
  ValueId new_state(ValueId update, ValueId k_rows, const Decay& decay);

  // [T, T] with 1 where `in(j, i)`.
  template <class In>
  ValueId pairs(const std::string& name, In in) {
    std::vector<double> values;
    for (int64_t j = 0; j < tokens_; ++j)
      for (int64_t i = 0; i < tokens_; ++i) values.push_back(in(j, i) ? 1 : 0);
    return b_.constant({dtype_, {1, 1, tokens_, tokens_}}, std::move(values), name);
  }

  ShardScope& scope_;
  Builder& b_;
  const RecurrentConfig& config_;
  const int64_t shared_, tokens_;  // value heads of a key head
  const DType dtype_;              // element type of the recurrence
  const ValueId normed_;
  const EarlierTokens& earlier_;
};

}  // namespace moec
