#include <vector>

#include "ir/graph/composite_operands.h"
#include "ir/graph/port_names.h"
#include "models/shards/affine_residual.h"
#include "models/shards/attention_gate.h"
#include "models/shards/latent_attention.h"
#include "models/shards/layer_ports.h"
#include "models/shards/shard_scope.h"
#include "models/shards/token_convolution.h"

namespace moec {

namespace {

// Compressed convolutional attention (arXiv 2510.04476), as in ZAYA1, with H query heads and K key
// heads of h channels. For a token x_t:
// - Queries and keys start as q = Wq x_t and k = Wk x_t.
// - Values are the concatenation of Vc x_t and Vd x_(t-1), divided into K heads.
// - q and k together pass through two convolutions over time with biases: the first per channel,
//   the second over the channels of each head.
// - (q_j + k_g(j)) / 2 is then added to each head j of q, where g(j) is its key head. The mean of
//   these terms over its query heads is added to each head of k.
// Tokens before the first one are zeros; the bias of Vd is also added to their values.

struct ConvolvedOperands {
  ValueId q, k, v;  // token tensors of H · h, K · h and K · h channels
  // Token tensor of history_channels(): q, k and Vd x of the step's tokens before the convolutions.
  // Later tokens need them for their convolutions and delayed values.
  ValueId new_history;
};

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
    // `all` begins with the history, so the convolutions need no padding.
    ValueId qk = b_.slice(all, kChannelAxis, 0, q_channels() + k_channels());
    const int64_t channels = q_channels() + k_channels();
    const auto& [channel_taps, head_taps] = *config_.convolved;
    ValueId mixed = convolved(scope_, qk, {"channel_conv", channels, 1, channel_taps, true});
    mixed = convolved(scope_, mixed, {"head_conv", channels, config_.head_dim, head_taps, true});
    // The outputs of the convolutions do not include the history, so the means omit it, too.
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
  int64_t v_channels() const { return k_channels() / 2; }  // channels per half of the values
  int64_t conv_token_axis() const { return token_axis(conv_layout_); }

  ValueId projected(const std::string& role, int64_t channels, const std::string& name) {
    return scope_.linear(normed_, {role, channels, config_.qkv_bias}, name);
  }

  ValueId without_first(ValueId x, int64_t tokens) {
    return b_.slice(x, conv_token_axis(), tokens, tokens_of(b_.type(x)) - tokens);
  }

  // Terms added to the convolved queries and keys. Query: the mean of the query and its key before
  // the convolutions. Key: the mean of these terms over its queries.
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

  // The values of the token before each token, as a convolution with the taps 1 and 0. A slice
  // without the last token would produce different ops per width.
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

// `normed` is the layer's input after its norm. `history` is new_history of the last history()
// tokens before the step.
ConvolvedOperands convolved_operands(ShardScope& scope, ValueId normed, ValueId history) {
  return Mixer(scope, normed, history).run();
}

struct AttentionInputs {
  ValueId x, rope_cos, rope_sin, query_scale, mask, write_mask, k_cache, v_cache, history;
};

// The number of keys in the mask for a cache of `rows` rows.
int64_t keys_seen(CacheForm form, int64_t rows, int64_t tokens) {
  switch (form) {
    case CacheForm::none:
      return tokens;
    case CacheForm::append:
      return rows + tokens;
    case CacheForm::blend:
      break;
  }
  return rows;
}

AttentionInputs declare_inputs(ShardScope& scope) {
  const AttentionConfig& attention = scope.attention();
  const CacheForm form = scope.options().cache;
  const bool blend = updates_cache(form);
  const int64_t tokens = scope.tokens, pages = scope.options().cache_pages;
  const int64_t rows = scope.options().context / pages, keys = keys_seen(form, rows, tokens);
  const auto cache_of = [&](int64_t dims) {
    return scope.type_of({pages, attention.kv_heads, rows, dims});
  };
  const Type k_cache = cache_of(attention.head_dim), v_cache = cache_of(attention.value_dim);
  Builder& b = scope.b;

  AttentionInputs in;
  in.x = b.input(kResidualPort, scope.token_type_of(scope.model().hidden));
  if (rotates(scope.model(), scope.layer())) {
    in.rope_cos = b.input(kRopeCosPort, scope.type_of({tokens, attention.rope.dims / 2}));
    in.rope_sin = b.input(kRopeSinPort, scope.type_of({tokens, attention.rope.dims / 2}));
  }
  if (scales_queries(scope.model(), scope.layer()))
    in.query_scale = b.input(kQueryScalePort, scope.token_type_of(1));
  in.mask = b.input(kMaskPort, scope.type_of({pages, 1, tokens, keys}));
  if (attention.convolved)
    in.history = b.input(kHistoryPort,
                         token_type(scope.options().dtype, scope.options().layout,
                                    attention.history_channels(), attention.convolved->history()));
  if (blend) {
    in.write_mask = b.input(kWriteMaskPort, scope.type_of({pages, 1, rows, tokens}));
    b.state(kKeyState, k_cache);
    b.state(kValueState, v_cache);
    in.k_cache = b.emit(StateRead{kKeyState}, {}, "k_cache");
    in.v_cache = b.emit(StateRead{kValueState}, {}, "v_cache");
  } else if (has_cache(form)) {
    in.k_cache = b.input(kKeyState, k_cache);
    in.v_cache = b.input(kValueState, v_cache);
  }
  return in;
}

ValueId clamp(ShardScope& scope, ValueId x, double limit, const std::string& name) {
  Builder& b = scope.b;
  ValueId below = b.binary(BinaryFn::min, x, b.scalar_like(x, limit), name + ".below");
  return b.binary(BinaryFn::max, below, b.scalar_like(x, -limit), name);
}

// The projection of a role: q, k or v. The checkpoint stores its rows as a matrix, or in `qkv`.
ValueId stored_rows(ShardScope& scope, ValueId x, const std::string& role, int64_t channels) {
  const AttentionConfig& attention = scope.attention();
  if (!scope.model().names.has("qkv"))
    return scope.linear(x, {role, channels, attention.qkv_bias}, role);
  const int64_t q = attention.heads * attention.head_dim;
  const int64_t keys = attention.kv_heads * attention.head_dim;
  const int64_t all = q + keys + attention.kv_heads * attention.value_dim;
  const SliceStep rows{0, role == "q" ? 0 : role == "k" ? q : q + keys, channels};
  WeightView matrix = then(scope.stored("qkv", {all, scope.model().hidden}), rows);
  std::vector<ValueId> operands = {x, scope.weight_like(x, std::move(matrix), role + ".weight")};
  if (attention.qkv_bias)
    operands.push_back(
        scope.weight_like(x, then(scope.stored("qkv_bias", {all}), rows), role + ".bias"));
  return scope.b.emit(Linear{}, std::move(operands), role);
}

// Computes q, k or v: the projection, then the norm over all heads and the clamp, if the model has
// them. As in OLMoE, the norm precedes the clamp.
ValueId project(ShardScope& scope, ValueId x, const std::string& role, int64_t channels,
                bool normed) {
  const AttentionConfig& attention = scope.attention();
  ValueId value = stored_rows(scope, x, role, channels);
  if (normed && attention.qk_norm == QkNormWidth::full)
    value = scope.rms_norm(value, role + "_norm", scope.model().norm.eps);
  if (attention.scaling.clip_qkv)
    value = clamp(scope, value, *attention.scaling.clip_qkv, role + "_clipped");
  return value;
}

QkNorm head_norm_of(QkNormWidth width, bool rotated) {
  switch (width) {
    case QkNormWidth::none:
    case QkNormWidth::full:
      return QkNorm::none;
    case QkNormWidth::per_head:
    case QkNormWidth::l2_tempered:
      return QkNorm::per_head;
    case QkNormWidth::per_head_rotated:
      return QkNorm::per_head_rotated;
    case QkNormWidth::per_head_values:
      return QkNorm::per_head_values;
    case QkNormWidth::l2:
      break;
  }
  return rotated ? QkNorm::per_head_rotated : QkNorm::none;
}

Attention attributes(const ShardScope& scope) {
  const AttentionConfig& config = scope.attention();
  Attention op;
  op.heads = config.heads;
  op.kv_heads = config.kv_heads;
  op.head_dim = config.head_dim;
  op.scale = config.scale;
  const bool rotated = rotates(scope.model(), scope.layer());
  op.qk_norm = head_norm_of(config.qk_norm, rotated);
  if (op.qk_norm != QkNorm::none)
    op.eps = config.qk_norm == QkNormWidth::l2_tempered ? kTemperedNormEps : scope.model().norm.eps;
  op.rope = rotated ? config.rope.style : RopeStyle::none;
  op.rope_dims = rotated ? config.rope.dims : 0;
  op.cache = scope.options().cache;
  return op;
}

// Computes q, k and v. Also declares the history output of convolved attention.
AttentionOperands<ValueId> projections(ShardScope& scope, ValueId normed,
                                       const AttentionInputs& in) {
  const AttentionConfig& attention = scope.attention();
  if (attention.convolved) {
    ConvolvedOperands mixed = convolved_operands(scope, normed, in.history);
    scope.b.output(kNewHistory, mixed.new_history);
    return {mixed.q, mixed.k, mixed.v};
  }
  if (!attention.latent) {
    const int64_t shared = attention.kv_heads * attention.head_dim;
    ValueId q = attention.projections == Projections::gate_in_q
                    ? queries_beside_gates(scope, normed)
                    : project(scope, normed, "q", attention.heads * attention.head_dim, true);
    if (in.query_scale.valid()) q = scope.b.mul(q, in.query_scale, "q_tempered");
    ValueId k = project(scope, normed, "k", shared, true);
    const bool one = attention.projections == Projections::keys_are_values;
    if (one) return {q, k, k};
    ValueId v = project(scope, normed, "v", attention.kv_heads * attention.value_dim, false);
    if (attention.scaling.value_scale != 1)
      v = scope.b.mul(v, scope.b.scalar_like(v, attention.scaling.value_scale), "v_scaled");
    return {q, k, v};
  }
  LatentOperands latent = latent_operands(scope, normed);
  if (in.query_scale.valid())
    latent.queries = scope.b.mul(latent.queries, in.query_scale, "q_tempered");
  return {latent.queries, latent.keys, latent.values};
}

// Adds the weights of the per-head norms. l2 norms have no stored weights: the weights are ones, or
// one number per head for tempered keys.
void add_norms(ShardScope& scope, AttentionOperands<ValueId>& all) {
  const AttentionConfig& attention = scope.attention();
  const bool tempered = attention.qk_norm == QkNormWidth::l2_tempered;
  if (!tempered && attention.qk_norm != QkNormWidth::l2) {
    all.q_norm = scope.weight(scope.norm_weights("q_norm", attention.head_dim), "q_norm.weight");
    all.k_norm = scope.weight(scope.norm_weights("k_norm", attention.head_dim), "k_norm.weight");
    return;
  }
  all.q_norm = scope.b.constant(scope.type_of({attention.head_dim}), {1}, "qk_norm.weight");
  all.k_norm = all.q_norm;
  if (!tempered) return;
  all.k_norm = scope.weight(then(scope.stored("k_temperature", {attention.kv_heads}),
                                 ReshapeStep{{attention.kv_heads, 1}}),
                            "k_temperature");
}

std::vector<ValueId> operands(ShardScope& scope, const Attention& op, const AttentionInputs& in,
                              ValueId normed) {
  AttentionOperands<ValueId> all = projections(scope, normed, in);
  all.rope_cos = in.rope_cos;
  all.rope_sin = in.rope_sin;
  all.mask = in.mask;
  if (op.qk_norm != QkNorm::none) add_norms(scope, all);
  all.k_cache = in.k_cache;
  all.v_cache = in.v_cache;
  all.write_mask = in.write_mask;
  const bool sinks = scope.attention().sinks;
  if (sinks) all.sinks = scope.weight("sinks", {op.heads}, "sinks");
  return operand_list(op, all, sinks);
}

// Writes the blended cache to the device states, or returns the new rows to the runtime.
void keep_rows(Builder& b, CacheForm form, ValueId keys, ValueId values) {
  if (updates_cache(form)) {
    b.name_if_unnamed(keys, "k_blended");
    b.name_if_unnamed(values, "v_blended");
    b.emit_all(StateWrite{kKeyState}, {keys});
    b.emit_all(StateWrite{kValueState}, {values});
  } else {
    b.name_if_unnamed(keys, kNewKeys);
    b.name_if_unnamed(values, kNewValues);
    b.output(kNewKeys, keys);
    b.output(kNewValues, values);
  }
}

}  // namespace

void build_attention(ShardScope& scope) {
  Builder& b = scope.b;
  AttentionInputs in = declare_inputs(scope);
  // Layer 0 reads embedding rows; later layers read the stream that started in layer 0.
  if (scope.model().stream.residual == ResidualKind::affine && scope.decl.layer == 0)
    in.x = affine_stream(scope, in.x);
  Attention op = attributes(scope);
  ValueId normed = scope.part_input(in.x, "attn_norm");
  std::vector<ValueId> results = b.emit_all(op, operands(scope, op, in, normed), "attention");
  ValueId attended = results[0];
  if (scope.attention().latent) attended = latent_values(scope, attended);
  attended = gated_attention(scope, normed, attended);
  ValueId out = scope.linear(attended, {"o", scope.model().hidden, scope.attention().o_bias}, "o");
  b.output(kHiddenPort, scope.add_residual(in.x, out, "attn", kHiddenPort));
  // Without a cache, the op returns no keys and values.
  if (has_cache(op.cache)) keep_rows(b, op.cache, results[1], results[2]);
}

}  // namespace moec
