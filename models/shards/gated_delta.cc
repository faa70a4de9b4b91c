#include "ir/graph/port_names.h"
#include "models/shards/delta_mixer.h"

namespace moec {
namespace {

class GatedDelta : DeltaMixer {
 public:
  GatedDelta(ShardScope& scope, ValueId normed, const EarlierTokens& earlier)
      : DeltaMixer(scope, normed, earlier) {}

  MixedTokens run() {
    ValueId fresh = projected();
    const Keys of = keys(convolution_of(fresh, "qkv"));
    ValueId k_rows = rows(of.k, "k_rows");
    const Decay decay = decays_of_tokens();
    // The delta rule stores the difference between v and the value that the decayed state returns
    // for k.
    ValueId seen = b_.mul(decay.since_start, b_.matmul(earlier_.state, of.k), "remembered");
    ValueId update = b_.mul(decay.rate, b_.sub(of.v, seen), "correction");
    if (tokens_ > 1) update = b_.matmul(update, inverse_of(of.k, k_rows, decay), "update");
    ValueId out = b_.add(b_.mul(decay.since_start, b_.matmul(earlier_.state, of.q)),
                         b_.matmul(update, attended(k_rows, of.q, decay)), "attended");
    ValueId state = new_state(update, k_rows, decay);
    const LinearWeights last{"mixer_out", scope_.model().hidden};
    return {scope_.linear(gated(out), last, "mixer_out"), fresh, state};
  }

 private:
  // The matrix of a role: mixer_qkv, mixer_z, mixer_b or mixer_a, or its rows in mixer_in, which
  // contains all of them in this order.
  WeightView rows_of_role(const std::string& role, int64_t count) const {
    const int64_t d = scope_.model().hidden;
    if (!scope_.model().names.has("mixer_in")) return scope_.stored(role, {count, d});
    const int64_t z = config_.channels, b = z + value_channels(), a = b + config_.value_heads;
    const int64_t begin = role == "mixer_qkv" ? 0
                          : role == "mixer_z" ? z
                          : role == "mixer_b" ? b
                                              : a;
    return then(scope_.stored("mixer_in", {a + config_.value_heads, d}),
                SliceStep{0, begin, count});
  }

  // The projections q, k and v before the convolution.
  ValueId projected() {
    if (!scope_.model().names.has("mixer_qkvz"))
      return mapped(rows_of_role("mixer_qkv", config_.channels), kNewHistory);
    const QkvzParts parts = parts_of_qkvz(scope_);
    return mapped(concat_view(0, {parts.q, parts.k, parts.v}), kNewHistory);
  }

  ValueId gate() {
    if (!scope_.model().names.has("mixer_qkvz"))
      return mapped(rows_of_role("mixer_z", value_channels()), "gate");
    return mapped(parts_of_qkvz(scope_).z, "gate");
  }

  // b or a, one number per value head: from separate tensors, or from one tensor with both per
  // head.
  ValueId per_head(const std::string& role, int64_t index) {
    const int64_t d = scope_.model().hidden, heads = config_.key_heads;
    if (!scope_.model().names.has("mixer_ba"))
      return mapped(rows_of_role(role, config_.value_heads), role);
    WeightView both = then(scope_.stored("mixer_ba", {2 * config_.value_heads, d}),
                           ReshapeStep{{heads, 2 * shared_, d}});
    return mapped(then(then(std::move(both), SliceStep{1, index * shared_, shared_}),
                       ReshapeStep{{config_.value_heads, d}}),
                  role);
  }

  Decay decays_of_tokens() {
    ValueId is_fed = fed();
    ValueId b = heads_of(per_head("mixer_b", 0), shared_, 1, "b");
    ValueId a = heads_of(per_head("mixer_a", 1), shared_, 1, "a");
    ValueId step = b_.mul(softplus(b_, b_.add(a, head_vector("mixer_decay_bias"))), is_fed);
    return decays(b_.mul(b_.unary(UnaryFn::sigmoid, b), is_fed, "rate"), log_decay(step));
  }

  ValueId inverse_of(ValueId k, ValueId k_rows, const Decay& decay) {
    // Row j, column i: β_i e^(G_i − G_j) k_j · k_i.
    ValueId a = b_.mul(b_.mul(b_.matmul(k_rows, k), decay.between), decay.rate, "overlap");
    return inverse([&](int64_t block) { return b_.mul(a, joins(block)); });
  }

  // The per-head norm, gated by z, as a token tensor.
  ValueId gated(ValueId out) {
    ValueId z = heads_of(gate(), shared_, config_.value_dim, "z");
    return as_in_shard(
        tokens_of_heads(b_.mul(normed_heads(out), silu(z, "z_gate"), "gated_heads")));
  }
};

}  // namespace

QkvzParts parts_of_qkvz(const ShardScope& scope) {
  const RecurrentConfig& config = *scope.model().recurrent;
  const int64_t d = scope.model().hidden, heads = config.key_heads, key = config.key_dim;
  const int64_t value = config.value_heads / heads * config.value_dim;
  const int64_t of_head = 2 * key + 2 * value;
  const WeightView all =
      then(scope.stored("mixer_qkvz", {heads * of_head, d}), ReshapeStep{{heads, of_head, d}});
  const auto part = [&](int64_t begin, int64_t dims) {
    return then(then(all, SliceStep{1, begin, dims}), ReshapeStep{{heads * dims, d}});
  };
  return {part(0, key), part(key, key), part(2 * key, value), part(2 * key + value, value)};
}

MixedTokens gated_delta(ShardScope& scope, ValueId normed, const EarlierTokens& earlier) {
  return GatedDelta(scope, normed, earlier).run();
}

}  // namespace moec
