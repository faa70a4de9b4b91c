#include "ir/graph/port_names.h"
#include "models/shards/delta_mixer.h"
#include "models/shards/token_convolution.h"

namespace moec {
namespace {

class KimiDelta : DeltaMixer {
 public:
  KimiDelta(ShardScope& scope, ValueId normed, const EarlierTokens& earlier)
      : DeltaMixer(scope, normed, earlier) {}

  MixedTokens run() {
    ValueId fresh = projected();
    const Keys of = keys(convolution_of(fresh, taps(), "qkv"));
    const Decays decay = decays_of_tokens();
    ValueId k = b_.mul(of.k, decay.since_start), q = b_.mul(of.q, decay.since_start);
    ValueId seen = b_.matmul(earlier_.state, k, "remembered");
    ValueId update = b_.mul(decay.rate, b_.sub(of.v, seen), "correction");
    ValueId scores = scores_of_tokens(of);
    if (tokens_ > 1) {
      const Pairs all = pairs_of_tokens(of, scores, decay);
      update = b_.matmul(update, all.inverse, "update");
      scores = all.scores;
    }
    ValueId out = b_.add(b_.matmul(earlier_.state, q), b_.matmul(update, scores), "attended");
    ValueId state = state_behind(update, of.k, decay);
    const LinearWeights last{"mixer_out", scope_.model().hidden};
    return {scope_.linear(gated(out), last, "mixer_out"), fresh, state};
  }

 private:
  // Per channel of a key: [heads, 1, key dim, T], unless stated otherwise.
  struct Decays {
    ValueId rate;         // β, the weight of a token's update, [heads, 1, 1, T]
    ValueId log;          // g
    ValueId since_start;  // e^G, of the running sum G of g
  };
  // Per pair of tokens j (rows) and i (columns): [heads, 1, T, T].
  struct Pairs {
    ValueId inverse, scores;
  };

  // The projections q, k and v before the convolution.
  ValueId projected() {
    const auto part = [&](const char* role, int64_t channels) {
      return scope_.stored(role, {channels, scope_.model().hidden});
    };
    return mapped(concat_view(0, {part("mixer_q", key_channels()), part("mixer_k", key_channels()),
                                  part("mixer_v", value_channels())}),
                  kNewHistory);
  }

  // The weights of the convolution, stored in one tensor or three.
  WeightView taps() const {
    const auto part = [&](const char* role, int64_t channels) {
      return taps_of(scope_, role, channels);
    };
    if (!scope_.model().names.has("mixer_q_conv")) return part("mixer_conv", config_.channels);
    return concat_view(0,
                       {part("mixer_q_conv", key_channels()), part("mixer_k_conv", key_channels()),
                        part("mixer_v_conv", value_channels())});
  }

  // A projection to `channels` channels, as heads: one map, or two with the dims of a head in
  // between.
  ValueId heads_by(const std::string& role, int64_t channels, const std::string& name) {
    const int64_t d = scope_.model().hidden, dims = channels / config_.value_heads;
    if (scope_.model().names.has(role))
      return heads_of(mapped(scope_.stored(role, {channels, d}), name), 1, dims, name);
    ValueId low = mapped(scope_.stored(role + "_down", {dims, d}), name + "_down");
    WeightView up = scope_.stored(role + "_up", {channels, dims});
    ValueId wide = b_.linear(low, scope_.weight(std::move(up), name + "_up.weight"), name);
    return heads_of(wide, 1, dims, name + "_heads");
  }

  // exp(decay) per channel of a head's keys. With a single number per head, Qualcomm's compiler
  // (QNN 2.51.0) multiplies all heads by the number of the first one after the softplus.
  ValueId speed() {
    const bool grid = !scope_.model().names.has("mixer_decay");
    const std::string role = grid ? "mixer_decay_grid" : "mixer_decay";
    const int64_t heads = config_.value_heads;
    WeightView stored = scope_.stored(role, grid ? Dims{1, 1, heads, 1} : Dims{heads});
    stored = then(then(std::move(stored), ReshapeStep{{heads, 1, 1, 1}}), CastStep{dtype_});
    const Type of_channels{dtype_, {heads, 1, config_.key_dim, 1}};
    ValueId of_heads = b_.weight(std::move(stored), role);
    return exp(b_.mul(of_heads, b_.constant(of_channels, {1}), role + "_of_channels"), "speed");
  }

  ValueId log_decays(ValueId is_fed) {
    WeightView bias = then(scope_.stored("mixer_decay_bias", {key_channels()}),
                           ReshapeStep{{config_.key_heads, 1, config_.key_dim, 1}});
    ValueId x = b_.add(heads_by("mixer_decay_map", key_channels(), "decay_in"),
                       b_.weight(then(std::move(bias), CastStep{dtype_}), "mixer_decay_bias"));
    if (config_.least_log_decay)
      x = b_.mul(b_.unary(UnaryFn::sigmoid, b_.mul(x, speed())),
                 scalar(x, *config_.least_log_decay));
    else
      x = b_.mul(softplus(b_, x), b_.unary(UnaryFn::neg, speed()));
    return b_.mul(x, is_fed, "log_decay");
  }

  Decays decays_of_tokens() {
    ValueId is_fed = fed();
    ValueId b = heads_of(
        mapped(scope_.stored("mixer_b", {config_.value_heads, scope_.model().hidden}), "mixer_b"),
        1, 1, "b");
    Decays decay;
    decay.rate = b_.mul(b_.unary(UnaryFn::sigmoid, b), is_fed, "rate");
    decay.log = log_decays(is_fed);
    decay.since_start = tokens_ == 1
                            ? exp(decay.log, "decay")
                            : sum_decay(
                                  decay, [](int64_t t, int64_t i) { return t <= i; }, "decay");
    return decay;
  }

  // Per token i: exp of the sum of the log decays of the tokens t with in(t, i).
  template <class In>
  ValueId sum_decay(const Decays& decay, In in, const std::string& name) {
    return exp(b_.matmul(decay.log, pairs(name + "_of", in)), name);
  }

  // Decay from the middle of a run of 2 · block tokens to later tokens, and from earlier tokens to
  // the middle. Exponents are at most 0, so exp() cannot overflow.
  ValueId decay_at_middle(const Decays& decay, int64_t block) {
    return sum_decay(
        decay,
        [&](int64_t t, int64_t i) {
          const int64_t middle = i / (2 * block) * 2 * block + block;
          return i < middle ? i < t && t < middle : middle <= t && t <= i;
        },
        "decay_at_middle");
  }

  // k·q per token, [heads, 1, 1, T].
  ValueId scores_of_tokens(const Keys& of) {
    return b_.reduce(ReduceFn::sum, b_.mul(of.k, of.q), kDimAxis, "own_score");
  }

  // Σ_c k_jc x_ic e^(G_ic − G_jc) for the pairs in the mask `joins`. `rows` and x include the decay
  // to and from the middle.
  ValueId joined(ValueId rows, ValueId x, ValueId joins) {
    return b_.mul(b_.matmul(rows, x), joins);
  }

  Pairs pairs_of_tokens(const Keys& of, ValueId own, const Decays& decay) {
    Pairs all;
    all.scores = b_.mul(own, pairs("itself", [](int64_t j, int64_t i) { return j == i; }));
    all.inverse = inverse([&](int64_t block) {
      ValueId at_middle = decay_at_middle(decay, block), mask = joins(block);
      ValueId k = b_.mul(of.k, at_middle), k_rows = rows(k);
      all.scores = b_.add(all.scores, joined(k_rows, b_.mul(of.q, at_middle), mask), "scores");
      return b_.mul(joined(k_rows, k, mask), decay.rate, "overlap");
    });
    return all;
  }

  ValueId state_behind(ValueId update, ValueId k, const Decays& decay) {
    ValueId whole = decay.since_start;
    if (tokens_ > 1) {
      k = b_.mul(k, sum_decay(
                        decay, [](int64_t t, int64_t j) { return t > j; }, "decay_to_end"));
      whole = b_.slice(whole, kTimeAxis, tokens_ - 1, 1);
    }
    whole =
        b_.reshape(whole, {config_.key_heads, 1, 1, config_.key_dim}, Layout::plain, "whole_decay");
    return b_.add(b_.mul(earlier_.state, whole), b_.matmul(update, rows(k, "k_rows")),
                  kNewRecurrentState);
  }

  // The per-head norm, gated, as a token tensor.
  ValueId gated(ValueId out) {
    ValueId gate = b_.unary(UnaryFn::sigmoid, heads_by("mixer_z", value_channels(), "gate"));
    return as_in_shard(tokens_of_heads(b_.mul(normed_heads(out), gate, "gated_heads")));
  }
};

}  // namespace

MixedTokens kimi_delta(ShardScope& scope, ValueId normed, const EarlierTokens& earlier) {
  return KimiDelta(scope, normed, earlier).run();
}

}  // namespace moec
