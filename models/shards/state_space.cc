#include "ir/graph/port_names.h"
#include "models/shards/decaying_mixer.h"

namespace moec {
namespace {

class StateSpace : DecayingMixer {
 public:
  StateSpace(ShardScope& scope, ValueId normed, const EarlierTokens& earlier)
      : DecayingMixer(scope, normed, earlier) {}

  MixedTokens run() {
    ValueId fresh = part_of_in(value_channels(), config_.channels, kNewHistory);
    const Inputs of = inputs(convolution_of(fresh, "xbc"));
    const Decay decay = decays_of_tokens();
    ValueId update = b_.mul(of.x, decay.rate, "update");
    // y_i = e^G_i S c_i + Σ_j e^(G_i − G_j) (b_j · c_i) Δ_j x_j over j <= i, plus D x_i.
    ValueId seen = b_.add(b_.mul(decay.since_start, b_.matmul(earlier_.state, of.c)),
                          b_.matmul(update, attended(of.b_rows, of.c, decay)), "attended");
    ValueId out = b_.add(seen, b_.mul(of.x, head_vector("mixer_skip")), "skipped");
    ValueId state = new_state(update, of.b_rows, decay);
    const LinearWeights last{"mixer_out", scope_.model().hidden, config_.map_bias};
    return {scope_.linear(gated(out), last, "mixer_out"), fresh, state};
  }

 private:
  struct Inputs {
    ValueId x, c;    // tokens as columns
    ValueId b_rows;  // B with tokens as rows
  };

  // A range of outputs of the input map. The map's rows are those of z, of the convolution's input,
  // and of dt.
  ValueId part_of_in(int64_t begin, int64_t rows, const std::string& name) {
    const int64_t all = value_channels() + config_.channels + config_.value_heads;
    const SliceStep part{0, begin, rows};
    WeightView matrix = then(scope_.stored("mixer_in", {all, scope_.model().hidden}), part);
    if (!config_.map_bias) return mapped(std::move(matrix), name);
    WeightView bias = then(scope_.stored("mixer_in_bias", {all}), part);
    ValueId weight = scope_.weight(std::move(matrix), name + ".weight");
    return b_.emit(Linear{}, {normed_, weight, scope_.weight(std::move(bias), name + ".bias")},
                   name);
  }

  Inputs inputs(ValueId xbc) {
    const int64_t value = value_channels(), key = key_channels();
    const auto part = [&](int64_t begin, int64_t size) {
      return b_.slice(xbc, kChannelAxis, begin, size);
    };
    ValueId b = heads_of(part(value, key), 1, config_.key_dim, "b");
    // The convolution's output is x, B and C, in this order.
    return {heads_of(part(0, value), shared_, config_.value_dim, "x"),
            heads_of(part(value + key, key), 1, config_.key_dim, "c"),
            b_.transpose(b, {0, 1, 3, 2}, Layout::plain, "b_rows")};
  }

  Decay decays_of_tokens() {
    ValueId dt = part_of_in(value_channels() + config_.channels, config_.value_heads, "dt");
    ValueId step = b_.add(heads_of(dt, shared_, 1, "dt_heads"), head_vector("mixer_decay_bias"));
    // Δ = softplus(dt + bias); 0 for padding, whose decay is then 1.
    ValueId rate = b_.mul(softplus(b_, step), fed(), "rate");
    return decays(rate, log_decay(rate));
  }

  // The gate precedes the norm, which acts over the channels that share B and C.
  ValueId gated(ValueId out) {
    ValueId z = heads_of(part_of_in(0, value_channels(), "gate"), shared_, config_.value_dim, "z");
    ValueId tokens = tokens_of_heads(b_.mul(out, silu(z, "z_gate"), "gated_heads"));
    // Emits a norm per group, because an RMS norm acts over all channels of its input.
    const int64_t groups = config_.key_heads, channels = value_channels() / groups;
    std::vector<ValueId> normed;
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t begin = group * channels;
      ValueId x = groups == 1 ? tokens : b_.slice(tokens, kChannelAxis, begin, channels);
      WeightView weight =
          then(scope_.stored("mixer_norm", {value_channels()}), SliceStep{0, begin, channels});
      ValueId w = scope_.weight_like(x, std::move(weight), "mixer_norm.weight");
      normed.push_back(b_.emit(RmsNorm{scope_.model().norm.eps}, {x, w}, "mixer_norm"));
    }
    return as_in_shard(groups == 1 ? normed.front() : b_.concat(normed, kChannelAxis));
  }
};

}  // namespace

MixedTokens state_space(ShardScope& scope, ValueId normed, const EarlierTokens& earlier) {
  return StateSpace(scope, normed, earlier).run();
}

}  // namespace moec
