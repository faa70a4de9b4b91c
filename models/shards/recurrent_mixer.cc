#include "models/shards/recurrent_mixer.h"

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
  ValueId maps = scope.linear(normed, {"mixer_in", 3 * channels, config.map_bias}, "mixer_in");
  const auto map = [&](int64_t index, const char* name) {
    return b.slice(maps, kChannelAxis, index * channels, channels, name);
  };
  ValueId fresh = b.mul(map(0, "gate_in"), map(2, "mixed"), kNewHistory);
  ValueId all = b.concat({earlier.history, fresh}, static_cast<int64_t>(token_axis(layout)));
  ValueId conv = convolved(scope, laid_out(b, all, convolution_layout(scope)),
                           {"mixer_conv", channels, 1, config.taps, config.bias});
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
  if (config.state().empty()) return earlier;
  earlier.fed = scope.b.input(kTokenMaskPort, scope.token_type_of(1));
  earlier.state = scope.b.input(kRecurrentState, {recurrence_type(options), config.state()});
  return earlier;
}

void build_recurrent(ShardScope& scope) {
  Builder& b = scope.b;
  ValueId x = b.input(kResidualPort, scope.token_type_of(scope.model().hidden));
  const EarlierTokens earlier = declare_earlier(scope);
  ValueId normed = scope.norm(x, "attn_norm");
  const MixedTokens mixed = mixed_tokens(scope, normed, earlier);
  b.output(kHiddenPort, scope.add_residual(x, mixed.out, "attn", kHiddenPort));
  b.output(kNewHistory, mixed.new_history);
  if (mixed.new_state.valid()) b.output(kNewRecurrentState, mixed.new_state);
}

}  // namespace moec
