#include "ir/graph/attention_operands.h"
#include "passes/attention_math.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

using AttentionValues = AttentionOperands<ValueId>;  // absent ones are invalid

ValueId normed_and_rotated(Builder& b, const Attention& op, const AttentionValues& operands,
                           ValueId heads, ValueId norm) {
  if (norms_before_rotation(op.qk_norm)) heads = head_norm(b, heads, norm, op.eps);
  if (op.rope != RopeStyle::none)
    heads = rotate(b, heads, operands.rope_cos, operands.rope_sin, op.rope, op.rope_dims);
  return op.qk_norm == QkNorm::per_head_rotated ? head_norm(b, heads, norm, op.eps) : heads;
}

// `all` are the keys or values of all tokens, earlier ones included; `result` is what the op gives
// back to be stored. With append these differ: the cache is an input and the runtime stores the new
// rows alone.
struct Keys {
  ValueId all, result;
};

Keys with_cache(Builder& b, const Attention& op, const AttentionValues& operands, ValueId rows,
                ValueId cache) {
  switch (op.cache) {
    case CacheForm::none:
      return {rows, {}};
    case CacheForm::append:
      return {b.concat({cache, rows}, 2), rows};
    case CacheForm::blend:
      break;
  }
  ValueId blended = blend_rows(b, cache, rows, operands.write_mask);
  return {blended, blended};
}

// What attend() takes, for all heads.
struct Heads {
  ValueId q, keys, values, mask, sinks;
};

ValueId attend_per_head(Builder& b, const Attention& op, const Heads& heads) {
  const int64_t group = op.heads / op.kv_heads;
  std::vector<ValueId> outs;
  ValueId key, value;
  for (int64_t head = 0; head < op.heads; ++head) {
    if (head % group == 0) {
      Builder::NameScope scope(b, "kv_head." + std::to_string(head / group));
      key = b.slice(heads.keys, 1, head / group, 1, "k");
      value = b.slice(heads.values, 1, head / group, 1, "v");
    }
    Builder::NameScope scope(b, "head." + std::to_string(head));
    ValueId sink = heads.sinks.valid() ? b.slice(heads.sinks, 1, head, 1, "sink") : ValueId{};
    outs.push_back(attend(b, b.slice(heads.q, 1, head, 1, "q"), key, value, heads.mask, sink));
  }
  return b.concat(outs, 1);
}

std::vector<ValueId> lower_heads(Builder& b, const Attention& op, const AttentionValues& operands,
                                 AttentionForm form) {
  ValueId q = to_heads(b, operands.q, op.heads, op.head_dim, "q.heads");
  ValueId k = to_heads(b, operands.k, op.kv_heads, op.head_dim, "k.heads");
  const int64_t v_dim = channels_of(b.type(operands.v)) / op.kv_heads;
  ValueId v = to_heads(b, operands.v, op.kv_heads, v_dim, "v.heads");
  {
    Builder::NameScope scope(b, "q");
    q = normed_and_rotated(b, op, operands, q, operands.q_norm);
    // Scales q and not the scores: there are fewer numbers, and f16 scores stay in range.
    q = b.mul(q, b.scalar_like(q, op.scale), "scaled");
  }
  {
    Builder::NameScope scope(b, "k");
    k = normed_and_rotated(b, op, operands, k, operands.k_norm);
  }
  if (op.qk_norm == QkNorm::per_head_values) {
    Builder::NameScope scope(b, "v");
    v = head_rms(b, v, op.eps);
  }
  const Keys keys = with_cache(b, op, operands, k, operands.k_cache);
  const Keys values = with_cache(b, op, operands, v, operands.v_cache);
  ValueId keys_t = b.transpose(keys.all, {0, 1, 3, 2}, Layout::plain, "keys");
  ValueId sinks = operands.sinks;
  if (sinks.valid()) sinks = b.reshape(sinks, {1, op.heads, 1, 1}, Layout::plain, "sinks.heads");
  ValueId out = form == AttentionForm::batched
                    ? attend(b, q, keys_t, values.all, operands.mask, sinks)
                    : attend_per_head(b, op, {q, keys_t, values.all, operands.mask, sinks});
  out = from_heads(b, out, b.type(operands.q).layout);
  if (!has_cache(op.cache)) return {out};
  return {out, keys.result, values.result};
}

}  // namespace

Result<Shard> lower_attention(const Shard& shard, PassContext& context) {
  auto lower = [&](Builder& b, const Attention& op, const std::vector<ValueId>& operands) {
    return lower_heads(b, op, attention_operands(op, operands), context.options.attention);
  };
  return rewrite_each<Attention>(shard, shard.form, outer_scope, lower);
}

}  // namespace moec
