#include "models/shards/convolved_attention.h"

#include "ir/graph/port_names.h"
#include "models/shards/token_convolution.h"

namespace moec {
namespace {

class Mixer {
 public:
  Mixer(ShardScope& scope, ValueId normed, ValueId history)
      : scope_(scope),
        b_(scope.b),
        config_(scope.attention()),
        normed_(normed),
        history_(history),
        earlier_(config_.convolved->history()),
        layout_(scope.options().layout),
        conv_layout_(convolution_layout(scope)) {}

  ConvolvedOperands run() {
    ValueId fresh = b_.concat(
        {projected("q", q_channels(), "q_projected"), projected("k", k_channels(), "k_projected"),
         scope_.linear(normed_, {"v_delayed", v_channels()}, "v_delayed")},
        kChannelAxis, kNewHistory);
    ValueId all = laid_out(
        b_, b_.concat({history_, fresh}, static_cast<int64_t>(token_axis(layout_))), conv_layout_);
    ValueId qk = b_.slice(all, kChannelAxis, 0, q_channels() + k_channels());
    const int64_t channels = q_channels() + k_channels();
    const auto& [channel_taps, head_taps] = *config_.convolved;
    ValueId mixed = convolved(scope_, qk, {"channel_conv", channels, 1, channel_taps, true});
    mixed = convolved(scope_, mixed, {"head_conv", channels, config_.head_dim, head_taps, true});
    const Means means = means_of(without_first(qk, earlier_));
    ValueId q = b_.add(b_.slice(mixed, kChannelAxis, 0, q_channels()), means.q, "q_mixed");
    ValueId k =
        b_.add(b_.slice(mixed, kChannelAxis, q_channels(), k_channels()), means.k, "k_mixed");
    return {laid_out(b_, q, layout_), laid_out(b_, k, layout_), values(all), fresh};
  }

 private:
  struct Means {
    ValueId q, k;
  };

  int64_t q_channels() const { return config_.heads * config_.head_dim; }
  int64_t k_channels() const { return config_.kv_heads * config_.head_dim; }
  int64_t v_channels() const { return k_channels() / 2; }  // of each half of the values
  int64_t conv_token_axis() const { return token_axis(conv_layout_); }

  ValueId projected(const std::string& role, int64_t channels, const std::string& name) {
    return scope_.linear(normed_, {role, channels, config_.qkv_bias}, name);
  }

  ValueId without_first(ValueId x, int64_t tokens) {
    return b_.slice(x, conv_token_axis(), tokens, tokens_of(b_.type(x)) - tokens);
  }

  // What is added to the convolved queries and keys (convolved_attention.h): the mean of each query
  // and its key before the convolutions and, for a key, the mean of that over its queries.
  Means means_of(ValueId qk) {
    const int64_t shared = config_.heads / config_.kv_heads, tokens = scope_.tokens;
    const DType dtype = b_.type(qk).dtype;
    ValueId q = b_.reshape(b_.slice(qk, kChannelAxis, 0, q_channels()),
                           {config_.kv_heads, shared, config_.head_dim, tokens});
    ValueId k = b_.reshape(b_.slice(qk, kChannelAxis, q_channels(), k_channels()),
                           {config_.kv_heads, 1, config_.head_dim, tokens});
    ValueId sum = b_.add(q, k);
    ValueId of_q = b_.mul(sum, b_.scalar_like(sum, 0.5), "q_mean");
    ValueId of_k = b_.reduce(ReduceFn::mean, of_q, 1, "k_mean");
    auto as_tokens = [&](ValueId x, int64_t channels) {
      return b_.reshape(x, token_type(dtype, conv_layout_, channels, tokens).dims, conv_layout_);
    };
    return {as_tokens(of_q, q_channels()), as_tokens(of_k, k_channels())};
  }

  // The values of the token before each token. This is a convolution with the taps 1 and 0, because
  // a slice that drops the last token would have a different form for each width.
  ValueId delayed_values(ValueId all) {
    const int64_t channels = v_channels();
    ValueId kept = b_.slice(all, kChannelAxis, q_channels() + k_channels(), channels);
    std::vector<double> taps;
    for (int64_t c = 0; c < channels; ++c) taps.insert(taps.end(), {1, 0});
    Dims dims = {channels, 1, 1, 1};
    dims[token_axis(conv_layout_)] = 2;
    ValueId weight = b_.constant(scope_.type_of(dims), std::move(taps), "delay.weight");
    return b_.emit(Conv{channels}, {without_first(kept, earlier_ - 1), weight}, "v_before");
  }

  ValueId values(ValueId all) {
    ValueId delayed = laid_out(b_, delayed_values(all), layout_);
    if (config_.qkv_bias)
      delayed = b_.add(delayed, scope_.channel_vector(delayed, "v_delayed_bias", "v_delayed.bias"));
    return b_.concat({projected("v_current", v_channels(), "v_current"), delayed}, kChannelAxis,
                     "v");
  }

  ShardScope& scope_;
  Builder& b_;
  const AttentionConfig& config_;
  const ValueId normed_, history_;
  const int64_t earlier_;  // tokens of the history
  const Layout layout_, conv_layout_;
};

}  // namespace

ConvolvedOperands convolved_operands(ShardScope& scope, ValueId normed, ValueId history) {
  return Mixer(scope, normed, history).run();
}

}  // namespace moec
