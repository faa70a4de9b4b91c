#include <string>

#include "ir/graph/builder.h"
#include "ir/graph/composite_operands.h"
#include "passes/attention_heads.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {

namespace {

// The steps of attention on tensors of heads, [1, heads, T, head_dim].

constexpr int64_t kTokenAxis = 2;
constexpr int64_t kPageAxis = 0, kKeyAxis = 3;  // of scores [P, H, T, S/P]

// The softmax over the keys of all pages and the optional sinks. It is composed of elementary ops
// because the softmax op operates along one axis, while these keys lie along two: page and row. A
// sink contributes to the maximum and to the sum but has no value, so its probability is dropped.
// Subtracting the maximum prevents overflow of exp().
ValueId softmax_by_parts(Builder& b, ValueId scores, ValueId sinks) {
  const auto over_all = [&](ReduceFn fn, ValueId x) {
    ValueId of_page = b.reduce(fn, x, kKeyAxis);
    return b.type(x).dims[kPageAxis] == 1 ? of_page : b.reduce(fn, of_page, kPageAxis);
  };
  ValueId largest = over_all(ReduceFn::max, scores);
  if (sinks.valid()) largest = b.binary(BinaryFn::max, largest, sinks);
  ValueId raised = b.unary(UnaryFn::exp, b.sub(scores, largest));
  ValueId sum = over_all(ReduceFn::sum, raised);
  if (sinks.valid()) sum = b.add(sum, b.unary(UnaryFn::exp, b.sub(sinks, largest)));
  return b.binary(BinaryFn::div, raised, sum, "probs");
}

// A token tensor of heads·head_dim channels as [1, heads, T, head_dim], and back.
ValueId to_heads(Builder& b, ValueId x, int64_t heads, int64_t head_dim, std::string name) {
  const int64_t tokens = tokens_of(b.type(x));
  if (b.type(x).layout == Layout::rows)
    return b.transpose(b.reshape(x, {1, tokens, heads, head_dim}), {0, 2, 1, 3}, Layout::plain,
                       std::move(name));
  return b.transpose(b.reshape(x, {1, heads, head_dim, tokens}), {0, 1, 3, 2}, Layout::plain,
                     std::move(name));
}

ValueId from_heads(Builder& b, ValueId x, Layout layout) {
  const Type type = b.type(x);
  const Dims token_dims =
      token_type(type.dtype, layout, type.dims[1] * type.dims[3], type.dims[2]).dims;
  std::vector<int64_t> perm = {0, 1, 3, 2};
  if (layout == Layout::rows) perm = {0, 2, 1, 3};
  return b.reshape(b.transpose(x, perm), token_dims, layout);
}

// Returns cache [P, K, S/P, h] with new rows [1, K, T, h] where write_mask [P, 1, S/P, T] is 1:
// token t is written to row s. Uses arithmetic, for targets without scatter. The old content of a
// written row is multiplied by 0, so it must be finite.
ValueId blend_rows(Builder& b, ValueId cache, ValueId rows, ValueId write_mask) {
  ValueId written = b.reduce(ReduceFn::sum, write_mask, 3);
  ValueId kept = b.mul(cache, b.sub(b.scalar_like(cache, 1), written));
  return b.add(kept, b.matmul(write_mask, rows));
}

// Returns softmax(q · keys + mask) · values as [1, H, T, u]. q [1, H, T, h] is scaled; keys are [1,
// K, h, S], values [1, K, S, u], mask [1, 1, T, S]; K divides H. With P pages (ir/graph/ops.h) keys
// are [P, K, h, S/P], values [P, K, S/P, u], mask [P, 1, T, S/P]. `sinks` [1, H, 1, 1], which may
// be invalid, are one more score per head, whose probability is dropped. With grouped queries the
// H/K query heads of a key head become rows of one matrix, so that no key is repeated.
ValueId attend(Builder& b, ValueId q, ValueId keys, ValueId values, ValueId mask, ValueId sinks) {
  const Dims by_head = b.type(q).dims;
  const int64_t heads = by_head[1], tokens = by_head[2], width = by_head[3];
  const Dims by_key = b.type(keys).dims;
  const int64_t pages = by_key[0], key_heads = by_key[1], rows = by_key[3];
  const Dims folded{1, key_heads, heads / key_heads * tokens, width};
  const Dims folded_probs{pages, key_heads, heads / key_heads * tokens, rows};
  const bool grouped = heads != key_heads;

  ValueId scores = b.matmul(grouped ? b.reshape(q, folded) : q, keys, "scores");
  if (grouped) scores = b.reshape(scores, {pages, heads, tokens, rows});
  ValueId masked = b.add(scores, mask, "masked");
  ValueId probs = pages == 1 && !sinks.valid() ? b.softmax(masked, kKeyAxis, "probs")
                                               : softmax_by_parts(b, masked, sinks);
  if (grouped) probs = b.reshape(probs, folded_probs);
  ValueId out = b.matmul(probs, values, "context");
  // The probabilities of all pages together sum to 1, so the result is the sum of the pages'
  // contexts.
  if (pages > 1) out = b.reduce(ReduceFn::sum, out, kPageAxis);
  return grouped ? b.reshape(out, {1, heads, tokens, b.type(values).dims[3]}) : out;
}

// all: the keys or values of all tokens, including earlier tokens. result: the op's result, for
// storage. With append, the two differ: the cache is an input, and the runtime stores only the new
// rows.
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

// Arguments of attend(), for all heads.
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
    q = normed_and_rotated(b, op, operands, {q, operands.q_norm, kTokenAxis});
    // Scales q instead of the scores: q has fewer elements, and f16 scores do not overflow.
    q = b.mul(q, b.scalar_like(q, op.scale), "scaled");
  }
  {
    Builder::NameScope scope(b, "k");
    k = normed_and_rotated(b, op, operands, {k, operands.k_norm, kTokenAxis});
  }
  if (facts_of(op.qk_norm).of_values) {
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
