// What the mixers share whose heads each keep a matrix that decays from token to token
// (recurrent_mixer.h): the tensors of heads, the decays of a step, and the state behind it.
//
// Tensors of heads are [key heads, value heads of each, dims, tokens], in the type of the
// recurrence.
#pragma once

#include <cstdint>
#include <string>

#include "models/shards/recurrent_mixer.h"

namespace moec {

class DecayingMixer {
 protected:
  static constexpr int64_t kDimAxis = 2, kTimeAxis = 3;

  // Numbers for each value head and token, [.., 1, T], unless they say otherwise.
  struct Decay {
    ValueId rate;         // how much of a token enters the state
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
  // log(1 + e^x), without an overflow.
  ValueId softplus(ValueId x);

  // `matrix` times the normed input.
  ValueId mapped(WeightView matrix, const std::string& name);
  // What the convolution makes of the tokens, after its silu. `fresh` is what enters it. Its
  // weights [channels, 1, taps] are those of the role mixer_conv, or `taps` in their place.
  ValueId convolution_of(ValueId fresh, const std::string& name);
  ValueId convolution_of(ValueId fresh, WeightView taps, const std::string& name);

  // The channels of a token tensor as heads.
  ValueId heads_of(ValueId x, int64_t inner, int64_t dims, const std::string& name);
  // The value heads as a token tensor of the recurrence's type, in the layout of convolutions.
  ValueId tokens_of_heads(ValueId heads);
  // A token tensor in the element type and the layout of the shard.
  ValueId as_in_shard(ValueId tokens);
  // The role's vector, a number for each value head.
  ValueId head_vector(const std::string& role);

  // 1 for tokens, 0 for padding.
  ValueId fed();
  // −exp(mixer_decay) · rate: the log decay of a token, where `rate` is 0 for padding.
  ValueId log_decay(ValueId rate);
  // The decays of a step by the log decays of its tokens.
  Decay decays(ValueId rate, ValueId log_decays);

  // KᵀQ ∘ D: how much of each token that entered the state a token sees.
  ValueId attended(ValueId k_rows, ValueId q, const Decay& decay);
  // The state behind the step: the decayed one, and `update` [.., value dim, T] times k_rows.
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
  const DType dtype_;              // of the recurrence
  const ValueId normed_;
  const EarlierTokens& earlier_;
};

}  // namespace moec
