#include <cmath>

#include "ir/graph/port_names.h"
#include "models/build/decaying_mixer.h"

namespace moec {
namespace {

// What keeps the length of a vector of zeros finite, as in the reference.
constexpr double kLengthEps = 1e-6;

class GatedDelta : DecayingMixer {
 public:
  GatedDelta(ShardScope& scope, ValueId normed, const EarlierTokens& earlier)
      : DecayingMixer(scope, normed, earlier) {}

  MixedTokens run() {
    ValueId fresh = projected();
    const Keys of = keys(convolution_of(fresh, "qkv"));
    const Decay decay = decays_of_tokens();
    ValueId seen = b_.mul(decay.since_start, b_.matmul(earlier_.state, of.k), "remembered");
    ValueId update = b_.mul(decay.rate, b_.sub(of.v, seen), "correction");
    if (tokens_ > 1) update = b_.matmul(update, inverse(of, decay), "update");
    ValueId out = b_.add(b_.mul(decay.since_start, b_.matmul(earlier_.state, of.q)),
                         b_.matmul(update, attended(of.k_rows, of.q, decay)), "attended");
    ValueId state = new_state(update, of.k_rows, decay);
    const LinearWeights last{"mixer_out", scope_.model().hidden};
    return {scope_.linear(gated(out), last, "mixer_out"), fresh, state};
  }

 private:
  struct Keys {
    ValueId q, k, v;  // tokens as columns
    ValueId k_rows;   // k with tokens as rows
  };

  // ---- projections
  // -------------------------------------------------------------------------------

  // One of q, k, v and z, of `dims` rows for each key head, out of the tensor that holds them head
  // by head.
  WeightView part_of_qkvz(int64_t begin, int64_t dims) const {
    const int64_t d = scope_.model().hidden, heads = config_.key_heads;
    const int64_t of_head = 2 * config_.key_dim + 2 * shared_ * config_.value_dim;
    WeightView all = scope_.stored("mixer_qkvz", {heads * of_head, d});
    all = then(std::move(all), ReshapeStep{{heads, of_head, d}});
    return then(then(std::move(all), SliceStep{1, begin, dims}), ReshapeStep{{heads * dims, d}});
  }

  // q, k and v of the tokens, before the convolution.
  ValueId projected() {
    const int64_t key = config_.key_dim, value = shared_ * config_.value_dim;
    if (!scope_.model().names.has("mixer_qkvz"))
      return mapped(scope_.stored("mixer_qkv", {config_.channels, scope_.model().hidden}),
                    kNewHistory);
    return mapped(concat_view(0, {part_of_qkvz(0, key), part_of_qkvz(key, key),
                                  part_of_qkvz(2 * key, value)}),
                  kNewHistory);
  }

  ValueId gate() {
    const int64_t key = config_.key_dim, value = shared_ * config_.value_dim;
    if (!scope_.model().names.has("mixer_qkvz"))
      return mapped(scope_.stored("mixer_z", {value_channels(), scope_.model().hidden}), "gate");
    return mapped(part_of_qkvz(2 * key + value, value), "gate");
  }

  // b or a, a number for each value head: in tensors of their own, or head by head in one.
  ValueId per_head(const std::string& role, int64_t index) {
    const int64_t d = scope_.model().hidden, heads = config_.key_heads;
    if (!scope_.model().names.has("mixer_ba"))
      return mapped(scope_.stored(role, {config_.value_heads, d}), role);
    WeightView both = then(scope_.stored("mixer_ba", {2 * config_.value_heads, d}),
                           ReshapeStep{{heads, 2 * shared_, d}});
    return mapped(then(then(std::move(both), SliceStep{1, index * shared_, shared_}),
                       ReshapeStep{{config_.value_heads, d}}),
                  role);
  }

  // ---- heads
  // -------------------------------------------------------------------------------------

  // x divided by the length of each column.
  ValueId unit(ValueId x, const std::string& name) {
    ValueId squares = b_.reduce(ReduceFn::sum, b_.mul(x, x), kDimAxis);
    return b_.div(x, b_.unary(UnaryFn::sqrt, b_.add(squares, scalar(x, kLengthEps))), name);
  }

  Keys keys(ValueId qkv) {
    const int64_t key = key_channels(), value = value_channels();
    ValueId q =
        unit(heads_of(b_.slice(qkv, kChannelAxis, 0, key), 1, config_.key_dim, "q"), "q_unit");
    ValueId k =
        unit(heads_of(b_.slice(qkv, kChannelAxis, key, key), 1, config_.key_dim, "k"), "k_unit");
    const double scale = 1 / std::sqrt(static_cast<double>(config_.key_dim));
    return {b_.mul(q, scalar(q, scale), "q_scaled"), k,
            heads_of(b_.slice(qkv, kChannelAxis, 2 * key, value), shared_, config_.value_dim, "v"),
            b_.transpose(k, {0, 1, 3, 2}, Layout::plain, "k_rows")};
  }

  Decay decays_of_tokens() {
    ValueId is_fed = fed();
    ValueId b = heads_of(per_head("mixer_b", 0), shared_, 1, "b");
    ValueId a = heads_of(per_head("mixer_a", 1), shared_, 1, "a");
    ValueId step = b_.mul(softplus(b_.add(a, head_vector("mixer_decay_bias"))), is_fed);
    return decays(b_.mul(b_.unary(UnaryFn::sigmoid, b), is_fed, "rate"), log_decay(step));
  }

  // ---- the step
  // ----------------------------------------------------------------------------------

  // (I + A)⁻¹ by doubling blocks (recurrent_mixer.h).
  ValueId inverse(const Keys& of, const Decay& decay) {
    ValueId a = b_.mul(b_.mul(b_.matmul(of.k_rows, of.k), decay.between), decay.rate, "overlap");
    ValueId x = pairs("identity", [](int64_t j, int64_t i) { return j == i; });
    for (int64_t block = 1; block < tokens_; block *= 2) {
      ValueId joins = pairs("joins", [&](int64_t j, int64_t i) {
        return j / (2 * block) == i / (2 * block) && j / block % 2 == 0 && i / block % 2 == 1;
      });
      ValueId part = b_.mul(a, joins);
      if (block > 1) part = b_.matmul(b_.matmul(x, part), x);
      x = b_.sub(x, part, "inverse");
    }
    return x;
  }

  // The norm over the dims of a head, gated by z, as a token tensor.
  ValueId gated(ValueId out) {
    ValueId mean = b_.reduce(ReduceFn::mean, b_.mul(out, out), kDimAxis);
    ValueId root = b_.unary(UnaryFn::sqrt, b_.add(mean, scalar(mean, scope_.model().norm.eps)));
    WeightView weight = then(scope_.stored("mixer_norm", {config_.value_dim}),
                             ReshapeStep{{1, 1, config_.value_dim, 1}});
    ValueId normed = b_.mul(
        b_.div(out, root),
        b_.weight(then(std::move(weight), CastStep{dtype_}), "mixer_norm.weight"), "mixer_norm");
    ValueId z = heads_of(gate(), shared_, config_.value_dim, "z");
    return as_in_shard(tokens_of_heads(b_.mul(normed, silu(z, "z_gate"), "gated_heads")));
  }
};

}  // namespace

MixedTokens gated_delta(ShardScope& scope, ValueId normed, const EarlierTokens& earlier) {
  return GatedDelta(scope, normed, earlier).run();
}

}  // namespace moec
