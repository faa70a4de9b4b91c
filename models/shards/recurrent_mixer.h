// Mixers of tokens that are no attention: a convolution over the last tokens and, for gated_delta
// and ssd, a state that goes through them. They stand in the place of attention: norm, mixer,
// residual.
//
// short_conv (LFM2), with three maps B, C, X of the normed input:
//   u = B ∘ X; y = out(C ∘ conv(u)), conv over each channel.
//
// gated_delta (Gated DeltaNet, arXiv 2412.06464; Qwen3-Next), for each value head and its key head:
//   q, k, v = silu(conv(qkv)); q and k are divided by their lengths, q also by √key_dim;
//   β = sigmoid(b); g = −exp(decay) · softplus(a + decay_bias)
//   S ← e^g · S;  S ← S + β (v − S k) kᵀ;  o = S q, of a state S [value_dim, key_dim]
//   y = out(norm(o) ∘ silu(z)), the norm over the channels of a head.
// A step of several tokens is the same in matrices, with the tokens as columns: G is the running
// sum of g, D[j,i] = exp(G_i − G_j) for j ≤ i, A[j,i] = β_i (k_j·k_i) D[j,i] for j < i, X = (I +
// A)⁻¹:
//   U = (β ∘ (V − e^G ∘ S K)) X;  O = e^G ∘ S Q + U (KᵀQ ∘ D)
//   S' = e^(G_T) S + (U ∘ e^(G_T − G)) Kᵀ
// X comes from doubling blocks: X ← X − X (A ∘ M_b) X for b = 1, 2, 4, …, where M_b has the pairs
// of a token in the first and one in the second half of a run of 2b. It stays exact where keys
// repeat, which a product of powers of A does not. Padding has β = 0 and g = 0, and changes
// nothing.
//
// ssd (Mamba-2, arXiv 2405.21060; Granite 4.0 H, Nemotron 3), for each head and the group of heads
// that it shares B and C with:
//   x, B, C = silu(conv(xBC)); dt = softplus(dt + decay_bias); g = −exp(decay) · dt
//   S ← e^g · S + dt · x Bᵀ;  y = S C + skip · x, of a state S [value_dim, key_dim]
//   y = out(norm(y ∘ silu(z))), the norm over the channels of a group.
// A step of several tokens, with G and D as above and U = dt ∘ X:
//   Y = e^G ∘ S C + U (BᵀC ∘ D) + skip · X;  S' = e^(G_T) S + (U ∘ e^(G_T − G)) Bᵀ
// Padding has dt = 0.
//
// kimi_delta (Kimi Delta Attention, arXiv 2510.26692; Kimi-Linear, Ling 3.0) is gated_delta with a
// log decay g of each channel of the keys, and as many key heads as value heads:
//   g = −exp(decay) · softplus(f + decay_bias), or least · sigmoid(exp(decay) · (f + decay_bias))
//   S ← S diag(e^g);  S ← S + β (v − S k) kᵀ;  o = S q;  y = out(norm(o) ∘ sigmoid(z))
// In matrices, with G the running sum of g for each channel:
//   U = (β ∘ (V − S (K ∘ e^G))) X
//   O = S (Q ∘ e^G) + U P
//   S' = S diag(e^(G_T)) + U (K ∘ e^(G_T − G))ᵀ
//   A[j,i] = β_i Σ_c k_jc k_ic e^(G_ic − G_jc) for j < i
//   P[j,i] = Σ_c k_jc q_ic e^(G_ic − G_jc) for j ≤ i
// The decay between two tokens is not one number here. Each pair j < i is joined by one M_b, and
// has the middle m of its run of 2b between its tokens, so the pairs of M_b are products of
// matrices, (K ∘ e^(G_m − G))ᵀ (K ∘ e^(G − G_m)), whose exponents are sums of log decays: none is
// above 0, and none is a difference of large sums.
#pragma once

#include "models/shards/shard_scope.h"

namespace moec {

// What a mixer reads besides the residual stream.
struct EarlierTokens {
  ValueId history;  // what entered the convolution for the last history() tokens before the step
  ValueId state;    // where there is one: RecurrentConfig::state(), in the type of the recurrence
  ValueId fed;      // beside a state: token tensor of one channel, 1 for tokens and 0 for padding
};

struct MixedTokens {
  ValueId out;          // token tensor of the hidden size
  ValueId new_history;  // what entered the convolution: channels of RecurrentConfig
  ValueId new_state;    // where there is one
};

// The element type of the recurrence: f32, unless the target takes no casts to it.
DType recurrence_type(const BuildOptions& options);

// `normed` is the layer's input after its norm.
MixedTokens short_convolution(ShardScope& scope, ValueId normed, const EarlierTokens& earlier);
MixedTokens gated_delta(ShardScope& scope, ValueId normed, const EarlierTokens& earlier);
MixedTokens state_space(ShardScope& scope, ValueId normed, const EarlierTokens& earlier);
MixedTokens kimi_delta(ShardScope& scope, ValueId normed, const EarlierTokens& earlier);

}  // namespace moec
