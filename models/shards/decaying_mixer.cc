#include "models/shards/decaying_mixer.h"

#include <cmath>

#include "ir/base/invariant.h"
#include "ir/graph/port_names.h"
#include "models/shards/token_convolution.h"

namespace moec {

DType recurrence_type(const BuildOptions& options) {
  return options.wide_router ? DType::f32 : options.dtype;
}

MixedTokens short_convolution(ShardScope& scope, ValueId normed, const EarlierTokens& earlier) {
  Builder& b = scope.b;
  const RecurrentConfig& config = *scope.model().recurrent;
  const int64_t channels = config.channels;
  const Layout layout = scope.options().layout;
  // out = W (C · conv(B · x)), with the maps B, C and x in this order in `mixer_in`, as in LFM2.
  ValueId maps = scope.linear(normed, {"mixer_in", 3 * channels, config.map_bias}, "mixer_in");
  const auto map = [&](int64_t index, const char* name) {
    return b.slice(maps, kChannelAxis, index * channels, channels, name);
  };
  ValueId fresh = b.mul(map(0, "gate_in"), map(2, "mixed"), kNewHistory);
  ValueId all = b.concat({earlier.history, fresh}, static_cast<int64_t>(token_axis(layout)));
  ValueId conv = convolved(scope, laid_out(b, all, convolution_layout(scope)),
                           {"mixer_conv", channels, 1, config.tokens(), config.bias},
                           taps_of(scope, "mixer_conv", channels));
  ValueId gated = b.mul(map(1, "gate_out"), laid_out(b, conv, layout), "gated");
  const LinearWeights out{"mixer_out", scope.model().hidden, config.map_bias};
  return {scope.linear(gated, out, "mixer_out"), fresh, {}};
}

static MixedTokens mixed_tokens(ShardScope& scope, ValueId normed, const EarlierTokens& earlier) {
  switch (scope.layer().mixer) {
    case MixerKind::short_conv:
      return short_convolution(scope, normed, earlier);
    case MixerKind::gated_delta:
      return gated_delta(scope, normed, earlier);
    case MixerKind::ssd:
      return state_space(scope, normed, earlier);
    case MixerKind::kimi_delta:
      return kimi_delta(scope, normed, earlier);
    case MixerKind::attention:
      break;
  }
  MOEC_CHECK(false, "layer {} has no recurrent mixer", scope.decl.layer);
}

static EarlierTokens declare_earlier(ShardScope& scope) {
  const RecurrentConfig& config = *scope.model().recurrent;
  const BuildOptions& options = scope.options();
  EarlierTokens earlier;
  earlier.history = scope.b.input(
      kHistoryPort, token_type(options.dtype, options.layout, config.channels, config.history()));
  // Without a state, padding needs no mask: it follows the tokens, and the convolution is causal.
  if (config.state().empty()) return earlier;
  earlier.fed = scope.b.input(kTokenMaskPort, scope.token_type_of(1));
  earlier.state = scope.b.input(kRecurrentState, {recurrence_type(options), config.state()});
  return earlier;
}

void build_recurrent(ShardScope& scope) {
  Builder& b = scope.b;
  ValueId x = b.input(kResidualPort, scope.token_type_of(scope.model().hidden));
  const EarlierTokens earlier = declare_earlier(scope);
  ValueId normed = scope.part_input(x, "attn_norm");
  const MixedTokens mixed = mixed_tokens(scope, normed, earlier);
  b.output(kHiddenPort, scope.add_residual(x, mixed.out, "attn", kHiddenPort));
  b.output(kNewHistory, mixed.new_history);
  if (mixed.new_state.valid()) b.output(kNewRecurrentState, mixed.new_state);
}

// softplus(x) = max(x, 0) + log(1 + e) with e = exp(-|x|) <= 1, which cannot overflow. log(1 + e) =
// 2s · Σ s^2k / (2k + 1) with s = e / (2 + e) <= 1/3.
ValueId softplus(Builder& b, ValueId x) {
  // The first omitted term is below the rounding error: s^16 / 17 < 2e-9 for f32, s^8 / 9 < 2e-5
  // for f16.
  const int terms = b.type(x).dtype == DType::f32 ? 8 : 4;
  const auto scalar = [&](double value) { return b.scalar_like(x, value); };
  ValueId e = b.unary(UnaryFn::exp, b.unary(UnaryFn::neg, b.unary(UnaryFn::abs, x)));
  // 2s is computed as e / (1 + e/2): the divisor is near 1, so a small e keeps its precision.
  ValueId factor = b.unary(UnaryFn::reciprocal, b.add(b.mul(e, scalar(0.5)), scalar(1)));
  ValueId twice = b.mul(e, factor), square = b.mul(twice, twice);
  // The factor 0.25^k compensates for `square`, which is (2s)² instead of s².
  const auto coefficient = [](int k) { return std::pow(0.25, k) / (2 * k + 1); };
  ValueId series = scalar(coefficient(terms - 1));
  for (int k = terms - 2; k >= 0; --k)
    series = b.add(b.mul(square, series), scalar(coefficient(k)));
  return b.add(b.binary(BinaryFn::max, x, scalar(0)), b.mul(twice, series), "softplus");
}

DecayingMixer::DecayingMixer(ShardScope& scope, ValueId normed, const EarlierTokens& earlier)
    : scope_(scope),
      b_(scope.b),
      config_(*scope.model().recurrent),
      shared_(config_.value_heads / config_.key_heads),
      tokens_(scope.tokens),
      dtype_(recurrence_type(scope.options())),
      normed_(normed),
      earlier_(earlier) {}

ValueId DecayingMixer::silu(ValueId x, const std::string& name) {
  return b_.mul(x, b_.unary(UnaryFn::sigmoid, x), name);
}

ValueId DecayingMixer::mapped(WeightView matrix, const std::string& name) {
  return b_.linear(normed_, scope_.weight(std::move(matrix), name + ".weight"), name);
}

ValueId DecayingMixer::convolution_of(ValueId fresh, const std::string& name) {
  return convolution_of(fresh, taps_of(scope_, "mixer_conv", config_.channels), name);
}

ValueId DecayingMixer::convolution_of(ValueId fresh, WeightView taps, const std::string& name) {
  const Layout layout = scope_.options().layout;
  ValueId all = b_.concat({earlier_.history, fresh}, static_cast<int64_t>(token_axis(layout)));
  ValueId conv = convolved(scope_, laid_out(b_, all, convolution_layout(scope_)),
                           {"mixer_conv", config_.channels, 1, config_.tokens(), config_.bias},
                           std::move(taps));
  return silu(conv, name);
}

ValueId DecayingMixer::heads_of(ValueId x, int64_t inner, int64_t dims, const std::string& name) {
  ValueId wide = scope_.to_dtype(laid_out(b_, x, convolution_layout(scope_)), dtype_);
  return b_.reshape(wide, {config_.key_heads, inner, dims, tokens_}, Layout::plain, name);
}

ValueId DecayingMixer::tokens_of_heads(ValueId heads) {
  const Layout layout = convolution_layout(scope_);
  return b_.reshape(heads, token_type(dtype_, layout, value_channels(), tokens_).dims, layout);
}

ValueId DecayingMixer::as_in_shard(ValueId tokens) {
  return laid_out(b_, scope_.to_dtype(tokens, scope_.options().dtype), scope_.options().layout);
}

ValueId DecayingMixer::head_vector(const std::string& role) {
  WeightView view = then(scope_.stored(role, {config_.value_heads}),
                         ReshapeStep{{config_.key_heads, shared_, 1, 1}});
  return b_.weight(then(std::move(view), CastStep{dtype_}), role);
}

// The mask is 0 for padding, so that padding does not change the state.
ValueId DecayingMixer::fed() {
  ValueId mask = laid_out(b_, earlier_.fed, convolution_layout(scope_));
  return b_.reshape(scope_.to_dtype(mask, dtype_), {1, 1, 1, tokens_});
}

ValueId DecayingMixer::log_decay(ValueId rate) {
  // The weight is the logarithm of -speed. With `rate` >= 0, log decays are never positive.
  ValueId speed = b_.unary(UnaryFn::neg, exp(head_vector("mixer_decay")), "speed");
  return b_.mul(speed, rate, "log_decay");
}

DecayingMixer::Decay DecayingMixer::decays(ValueId rate, ValueId log_decays) {
  Decay decay;
  decay.rate = rate;
  // For a single token, G is the log decay of the token, and there are no pairs.
  if (tokens_ == 1) {
    decay.since_start = decay.whole = exp(log_decays, "decay");
    return decay;
  }
  // Matrices of zeros and ones turn sums over tokens into matmuls: G_i = Σ g_j over j <= i.
  ValueId upper = pairs("not_after", [](int64_t j, int64_t i) { return j <= i; });
  ValueId sum = b_.matmul(log_decays, upper, "log_decay_sum");
  decay.since_start = exp(sum, "decay");
  decay.whole = exp(b_.slice(sum, kTimeAxis, tokens_ - 1, 1), "whole_decay");
  // Sums directly instead of the differences G_T − G and G_i − G_j, which suffer from cancellation
  // in types narrower than f32.
  ValueId later = pairs("after", [](int64_t t, int64_t j) { return t > j; });
  decay.to_end = exp(b_.matmul(log_decays, later), "decay_to_end");
  ValueId behind = pairs("behind", [](int64_t j, int64_t t) { return j < t; });
  ValueId apart = b_.matmul(b_.mul(behind, log_decays), upper);
  // Σ g_t over j < t <= i. The mask removes the pairs with j > i, for which exp() of the empty sum
  // is 1.
  decay.between = b_.mul(exp(apart), upper, "decay_between");
  return decay;
}

ValueId DecayingMixer::attended(ValueId k_rows, ValueId q, const Decay& decay) {
  ValueId scores = b_.matmul(k_rows, q, "scores");
  return tokens_ == 1 ? scores : b_.mul(scores, decay.between, "decayed_scores");
}

ValueId DecayingMixer::new_state(ValueId update, ValueId k_rows, const Decay& decay) {
  // S' = S e^G_T + Σ_j e^(G_T − G_j) u_j k_jᵀ.
  if (tokens_ > 1) update = b_.mul(update, decay.to_end);
  return b_.add(b_.mul(earlier_.state, decay.whole), b_.matmul(update, k_rows), kNewRecurrentState);
}

}  // namespace moec
