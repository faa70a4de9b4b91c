#include "passes/attention_math.h"

#include "ir/graph/rms.h"

namespace moec {
namespace {

constexpr int64_t kHeadDimAxis = 3;
constexpr int64_t kPageAxis = 0, kKeyAxis = 3;  // of scores [P, H, T, S/P]

struct Pair {
  ValueId first, second;
};

// half: the pairs are (i, i + dims/2), two slices of the last axis.
Pair split_half(Builder& b, ValueId x, int64_t dims) {
  return {b.slice(x, kHeadDimAxis, 0, dims / 2), b.slice(x, kHeadDimAxis, dims / 2, dims / 2)};
}

ValueId join_half(Builder& b, Pair pair) {
  return b.concat({pair.first, pair.second}, kHeadDimAxis);
}

// interleaved: the pairs are (2i, 2i + 1), the two columns of [heads, T, dims/2, 2].
Pair split_interleaved(Builder& b, ValueId x, int64_t dims) {
  Dims sizes = b.type(x).dims;
  ValueId columns = b.reshape(x, {sizes[1], sizes[2], dims / 2, 2});
  sizes[3] = dims / 2;
  return {b.reshape(b.slice(columns, 3, 0, 1), sizes), b.reshape(b.slice(columns, 3, 1, 1), sizes)};
}

// The inverse of split_interleaved().
ValueId join_interleaved(Builder& b, Pair pair) {
  const Dims sizes = b.type(pair.first).dims;
  const Dims column{sizes[1], sizes[2], sizes[3], 1};
  ValueId columns = b.concat({b.reshape(pair.first, column), b.reshape(pair.second, column)}, 3);
  return b.reshape(columns, {1, sizes[1], sizes[2], 2 * sizes[3]});
}

// (x, y) -> (x cos − y sin, y cos + x sin): a rotation of each pair by the angle of its position.
Pair rotate_pair(Builder& b, Pair x, ValueId cos, ValueId sin) {
  ValueId first_cos = b.mul(x.first, cos), second_sin = b.mul(x.second, sin);
  ValueId second_cos = b.mul(x.second, cos), first_sin = b.mul(x.first, sin);
  return {b.sub(first_cos, second_sin), b.add(second_cos, first_sin)};
}

// The softmax over the keys of all pages and, where there are any, the sinks. Written out because
// the softmax op works along one axis: here the keys lie along two, the page and the row in it. A
// sink takes part in the maximum and in the sum, but has no value, so its share is dropped.
// Subtracting the maximum keeps exp() finite.
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

}  // namespace

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

ValueId head_rms(Builder& b, ValueId x, double eps) {
  return rms_normalise(b, x, kHeadDimAxis, eps);
}

ValueId head_norm(Builder& b, ValueId x, ValueId w, double eps) {
  ValueId normalised = head_rms(b, x, eps);
  const Dims sizes = b.type(w).dims;  // [head_dim], or [heads, 1]
  const Dims spread = sizes.size() == 2 ? Dims{1, sizes[0], 1, 1} : Dims{1, 1, 1, sizes[0]};
  return b.mul(normalised, b.reshape(w, spread), "normed");
}

ValueId rotate(Builder& b, ValueId x, ValueId cos, ValueId sin, RopeStyle style, int64_t dims) {
  const Dims sizes = b.type(x).dims;
  const int64_t rest = sizes[3] - dims;
  const Dims angle_dims{1, 1, sizes[2], dims / 2};
  const bool half = style == RopeStyle::half;
  ValueId turned = rest == 0 ? x : b.slice(x, kHeadDimAxis, 0, dims);
  Pair pair = half ? split_half(b, turned, dims) : split_interleaved(b, turned, dims);
  cos = b.reshape(cos, angle_dims);
  sin = b.reshape(sin, angle_dims);
  pair = rotate_pair(b, pair, cos, sin);
  turned = half ? join_half(b, pair) : join_interleaved(b, pair);
  if (rest == 0) return turned;
  return b.concat({turned, b.slice(x, kHeadDimAxis, dims, rest)}, kHeadDimAxis);
}

// Writes rows by arithmetic, for targets without scatter: write_mask has a 1 where token t goes to
// row s. A row that is written is first multiplied by 0, so that its old content must be finite.
ValueId blend_rows(Builder& b, ValueId cache, ValueId rows, ValueId write_mask) {
  ValueId written = b.reduce(ReduceFn::sum, write_mask, 3);
  ValueId kept = b.mul(cache, b.sub(b.scalar_like(cache, 1), written));
  return b.add(kept, b.matmul(write_mask, rows));
}

// With grouped queries, several heads of q share a head of keys. The heads of a group are laid
// along the tokens, so that one matmul serves them all and no key is repeated.
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
  // The probabilities of all pages sum to 1, so the contexts of the pages add up to the whole.
  if (pages > 1) out = b.reduce(ReduceFn::sum, out, kPageAxis);
  return grouped ? b.reshape(out, {1, heads, tokens, b.type(values).dims[3]}) : out;
}

}  // namespace moec
