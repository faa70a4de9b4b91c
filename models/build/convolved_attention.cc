#include "models/build/convolved_attention.h"

#include "ir/graph/port_names.h"

namespace moec {
namespace {

class Mixer {
 public:
  Mixer(ShardScope& scope, ValueId normed, ValueId history)
      : scope_(scope),
        b_(scope.b),
        config_(scope.model().attention),
        normed_(normed),
        history_(history),
        earlier_(config_.convolved->history()),
        layout_(scope.options().layout),
        conv_layout_(layout_ == Layout::rows ? Layout::channels : layout_) {}

  ConvolvedOperands run() {
    ValueId fresh = b_.concat(
        {projected("q", q_channels(), "q_projected"), projected("k", k_channels(), "k_projected"),
         scope_.linear(normed_, {"v_delayed", v_channels()}, "v_delayed")},
        kChannelAxis, kNewHistory);
    ValueId all = laid_out(b_.concat({history_, fresh}, static_cast<int64_t>(token_axis(layout_))),
                           conv_layout_);
    ValueId qk = b_.slice(all, kChannelAxis, 0, q_channels() + k_channels());
    ValueId mixed = convolved(qk, "channel_conv", 1, config_.convolved->channel_taps);
    mixed = convolved(mixed, "head_conv", config_.head_dim, config_.convolved->head_taps);
    const Means means = means_of(without_first(qk, earlier_));
    ValueId q = b_.add(b_.slice(mixed, kChannelAxis, 0, q_channels()), means.q, "q_mixed");
    ValueId k =
        b_.add(b_.slice(mixed, kChannelAxis, q_channels(), k_channels()), means.k, "k_mixed");
    return {laid_out(q, layout_), laid_out(k, layout_), values(all), fresh};
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

  ValueId laid_out(ValueId x, Layout layout) {
    const Type from = b_.type(x);
    if (from.layout == layout) return x;
    const int64_t channels = channels_of(from), tokens = tokens_of(from);
    if (layout == Layout::rows)
      return b_.transpose(b_.reshape(x, {channels, tokens}), {1, 0}, layout);
    const Dims dims = token_type(from.dtype, layout, channels, tokens).dims;
    return b_.reshape(b_.transpose(x, {1, 0}), dims, layout);
  }

  Dims weight_dims(int64_t channels, int64_t of_group, int64_t taps) const {
    Dims dims = {channels, of_group, 1, 1};
    dims[token_axis(conv_layout_)] = taps;
    return dims;
  }

  // A convolution of all channels of q and k within groups of `of_group` channels.
  ValueId convolved(ValueId x, const std::string& role, int64_t of_group, int64_t taps) {
    const int64_t channels = q_channels() + k_channels();
    WeightView stored = scope_.stored(role, {channels, of_group, taps});
    ValueId weight =
        scope_.weight(then(std::move(stored), ReshapeStep{weight_dims(channels, of_group, taps)}),
                      role + ".weight");
    ValueId bias = scope_.weight(role + "_bias", {channels}, role + ".bias");
    return b_.emit(Conv{channels / of_group}, {x, weight, bias}, role);
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
    ValueId weight =
        b_.constant(scope_.type_of(weight_dims(channels, 1, 2)), std::move(taps), "delay.weight");
    return b_.emit(Conv{channels}, {without_first(kept, earlier_ - 1), weight}, "v_before");
  }

  ValueId values(ValueId all) {
    ValueId delayed = laid_out(delayed_values(all), layout_);
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
