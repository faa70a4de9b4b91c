#include <cmath>

#include "ir/graph/port_names.h"
#include "models/build/recurrent_mixer.h"
#include "models/build/token_convolution.h"

namespace moec {
namespace {

// What keeps the length of a vector of zeros finite, as in the reference.
constexpr double kLengthEps = 1e-6;

// Axes of the tensors of heads, [key heads, value heads of each, dims, tokens].
constexpr int64_t kDimAxis = 2, kTimeAxis = 3;

class GatedDelta {
 public:
  GatedDelta(ShardScope& scope, ValueId normed, const EarlierTokens& earlier)
      : scope_(scope),
        b_(scope.b),
        config_(*scope.model().recurrent),
        shared_(config_.value_heads / config_.key_heads),
        tokens_(scope.tokens),
        dtype_(recurrence_type(scope.options())),
        normed_(normed),
        earlier_(earlier) {}

  MixedTokens run() {
    ValueId fresh = projected();
    const Keys of = keys(mixed(fresh));
    const Decay decay = decays();
    ValueId seen = b_.mul(decay.since_start, b_.matmul(earlier_.state, of.k), "remembered");
    ValueId update = b_.mul(decay.rate, b_.sub(of.v, seen), "correction");
    if (tokens_ > 1) update = b_.matmul(update, inverse(of, decay), "update");
    ValueId out = b_.add(b_.mul(decay.since_start, b_.matmul(earlier_.state, of.q)),
                         b_.matmul(update, attended(of, decay)), "attended");
    ValueId state = new_state(of, decay, update);
    const LinearWeights last{"mixer_out", scope_.model().hidden};
    return {scope_.linear(gated(out), last, "mixer_out"), fresh, state};
  }

 private:
  struct Keys {
    ValueId q, k, v;  // tokens as columns
    ValueId k_rows;   // k with tokens as rows
  };
  // Numbers for each value head and token, [.., 1, T], unless they say otherwise.
  struct Decay {
    ValueId rate;         // β
    ValueId since_start;  // e^G
    ValueId to_end;       // e^(G_T − G)
    ValueId whole;        // e^(G_T), [.., 1, 1]
    ValueId between;      // D, [.., T, T]; none for one token
  };

  int64_t key_channels() const { return config_.key_heads * config_.key_dim; }
  int64_t value_channels() const { return config_.value_heads * config_.value_dim; }
  ValueId scalar(ValueId like, double value) { return b_.scalar_like(like, value); }
  ValueId exp(ValueId x, const std::string& name = {}) { return b_.unary(UnaryFn::exp, x, name); }
  ValueId silu(ValueId x, const std::string& name) {
    return b_.mul(x, b_.unary(UnaryFn::sigmoid, x), name);
  }

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

  ValueId mapped(WeightView matrix, const std::string& name) {
    return b_.linear(normed_, scope_.weight(std::move(matrix), name + ".weight"), name);
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

  // Channels of a token tensor as heads with the tokens as columns, in the type of the recurrence.
  ValueId heads_of(ValueId x, int64_t inner, int64_t dims, const std::string& name) {
    ValueId wide = scope_.to_dtype(laid_out(b_, x, convolution_layout(scope_)), dtype_);
    return b_.reshape(wide, {config_.key_heads, inner, dims, tokens_}, Layout::plain, name);
  }

  ValueId mixed(ValueId fresh) {
    const Layout layout = scope_.options().layout;
    ValueId all = b_.concat({earlier_.history, fresh}, static_cast<int64_t>(token_axis(layout)));
    ValueId conv = convolved(scope_, laid_out(b_, all, convolution_layout(scope_)),
                             {"mixer_conv", config_.channels, 1, config_.taps, false});
    return silu(conv, "qkv");
  }

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

  // ---- decay
  // -------------------------------------------------------------------------------------

  // The role's vector, a number for each value head.
  ValueId head_vector(const std::string& role) {
    WeightView view = then(scope_.stored(role, {config_.value_heads}),
                           ReshapeStep{{config_.key_heads, shared_, 1, 1}});
    return b_.weight(then(std::move(view), CastStep{dtype_}), role);
  }

  // log(1 + e^x), without an overflow.
  ValueId softplus(ValueId x) {
    ValueId small = exp(b_.unary(UnaryFn::neg, b_.unary(UnaryFn::abs, x)));
    ValueId log = b_.unary(UnaryFn::log, b_.add(small, scalar(x, 1)));
    return b_.add(b_.binary(BinaryFn::max, x, scalar(x, 0)), log, "softplus");
  }

  // [T, T] with 1 where `in(j, i)`.
  template <class In>
  ValueId pairs(const std::string& name, In in) {
    std::vector<double> values;
    for (int64_t j = 0; j < tokens_; ++j)
      for (int64_t i = 0; i < tokens_; ++i) values.push_back(in(j, i) ? 1 : 0);
    return b_.constant({dtype_, {1, 1, tokens_, tokens_}}, std::move(values), name);
  }

  Decay decays() {
    ValueId fed =
        b_.reshape(scope_.to_dtype(laid_out(b_, earlier_.fed, convolution_layout(scope_)), dtype_),
                   {1, 1, 1, tokens_});
    ValueId b = heads_of(per_head("mixer_b", 0), shared_, 1, "b");
    ValueId a = heads_of(per_head("mixer_a", 1), shared_, 1, "a");
    ValueId speed = b_.unary(UnaryFn::neg, exp(head_vector("mixer_decay")), "speed");
    ValueId step = b_.mul(b_.mul(speed, softplus(b_.add(a, head_vector("mixer_decay_bias")))), fed,
                          "log_decay");
    Decay decay;
    decay.rate = b_.mul(b_.unary(UnaryFn::sigmoid, b), fed, "rate");
    if (tokens_ == 1) {
      decay.since_start = decay.whole = exp(step, "decay");
      return decay;
    }
    ValueId upper = pairs("not_after", [](int64_t j, int64_t i) { return j <= i; });
    ValueId sum = b_.matmul(step, upper, "log_decay_sum");
    ValueId last = b_.slice(sum, kTimeAxis, tokens_ - 1, 1);
    ValueId rows = b_.reshape(sum, {config_.key_heads, shared_, tokens_, 1});
    ValueId apart = b_.sub(sum, rows);
    decay.since_start = exp(sum, "decay");
    decay.whole = exp(last, "whole_decay");
    decay.to_end = exp(b_.sub(last, sum), "decay_to_end");
    decay.between =
        b_.mul(exp(b_.binary(BinaryFn::min, apart, scalar(apart, 0))), upper, "decay_between");
    return decay;
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

  // KᵀQ ∘ D: how much of each update a token sees.
  ValueId attended(const Keys& of, const Decay& decay) {
    ValueId scores = b_.matmul(of.k_rows, of.q, "scores");
    return tokens_ == 1 ? scores : b_.mul(scores, decay.between, "decayed_scores");
  }

  ValueId new_state(const Keys& of, const Decay& decay, ValueId update) {
    if (tokens_ > 1) update = b_.mul(update, decay.to_end);
    return b_.add(b_.mul(earlier_.state, decay.whole), b_.matmul(update, of.k_rows),
                  kNewRecurrentState);
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
    ValueId all = b_.mul(normed, silu(z, "z_gate"), "gated_heads");
    const Layout layout = convolution_layout(scope_);
    const Dims dims = token_type(dtype_, layout, value_channels(), tokens_).dims;
    ValueId tokens = scope_.to_dtype(b_.reshape(all, dims, layout), scope_.options().dtype);
    return laid_out(b_, tokens, scope_.options().layout);
  }

  ShardScope& scope_;
  Builder& b_;
  const RecurrentConfig& config_;
  const int64_t shared_, tokens_;  // value heads of a key head
  const DType dtype_;              // of the recurrence
  const ValueId normed_;
  const EarlierTokens& earlier_;
};

}  // namespace

MixedTokens gated_delta(ShardScope& scope, ValueId normed, const EarlierTokens& earlier) {
  return GatedDelta(scope, normed, earlier).run();
}

}  // namespace moec
