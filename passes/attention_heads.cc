#include "passes/attention_heads.h"

#include "ir/base/at.h"
#include "ir/graph/rms.h"

namespace moec {
namespace {

constexpr int64_t kHeadDimAxis = 3;

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

// interleaved: the pairs are (2i, 2i + 1), the two columns of [heads, T, dims/2, 2] or [T, heads,
// dims/2, 2].
Pair split_interleaved(Builder& b, ValueId x, int64_t dims) {
  Dims sizes = b.type(x).dims;
  ValueId columns = b.reshape(x, {sizes[1], sizes[2], dims / 2, 2});
  sizes[3] = dims / 2;
  return {b.reshape(b.slice(columns, 3, 0, 1), sizes), b.reshape(b.slice(columns, 3, 1, 1), sizes)};
}

// Inverse of split_interleaved().
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

// head_rms() times w, which is [head_dim], or [heads, 1].
ValueId head_norm(Builder& b, const HeadTensor& heads, double eps) {
  ValueId normalised = head_rms(b, heads.x, eps);
  const Dims sizes = b.type(heads.norm).dims;
  Dims spread{1, 1, 1, 1};
  at(spread, sizes.size() == 2 ? 3 - heads.token_axis : kHeadDimAxis) = sizes[0];
  return b.mul(normalised, b.reshape(heads.norm, spread), "normed");
}

// Rotates the leading `dims` of each head's vector in pairs (a, c) by the angle of each token: (a ·
// cos − c · sin, c · cos + a · sin). The op's style determines the pairs and
// is not none.
ValueId rotate(Builder& b, const Attention& op, const AttentionValues& operands, ValueId x,
               int64_t token_axis) {
  const Dims sizes = b.type(x).dims;
  const int64_t dims = op.rope_dims, rest = sizes[3] - dims;
  Dims angle_dims{1, 1, 1, dims / 2};
  at(angle_dims, token_axis) = at(sizes, token_axis);
  const bool half = pairs_halves(op.rope);
  ValueId turned = rest == 0 ? x : b.slice(x, kHeadDimAxis, 0, dims);
  Pair pair = half ? split_half(b, turned, dims) : split_interleaved(b, turned, dims);
  const ValueId cos = b.reshape(operands.rope_cos, angle_dims);
  const ValueId sin = b.reshape(operands.rope_sin, angle_dims);
  pair = rotate_pair(b, pair, cos, sin);
  turned = half ? join_half(b, pair) : join_interleaved(b, pair);
  if (rest == 0) return turned;
  return b.concat({turned, b.slice(x, kHeadDimAxis, dims, rest)}, kHeadDimAxis);
}

}  // namespace

ValueId head_rms(Builder& b, ValueId x, double eps) {
  return rms_normalise(b, x, kHeadDimAxis, eps);
}

ValueId normed_and_rotated(Builder& b, const Attention& op, const AttentionValues& operands,
                           const HeadTensor& heads) {
  HeadTensor done = heads;
  if (facts_of(op.qk_norm).before) done.x = head_norm(b, done, op.eps);
  if (op.rope != RopeStyle::none) done.x = rotate(b, op, operands, done.x, heads.token_axis);
  return facts_of(op.qk_norm).after ? head_norm(b, done, op.eps) : done.x;
}

}  // namespace moec
