// The steps of attention on tensors of heads, [1, heads, T, head_dim].
#pragma once

#include <string>

#include "ir/graph/builder.h"

namespace moec {

// A token tensor of heads·head_dim channels as [1, heads, T, head_dim], and back.
ValueId to_heads(Builder& b, ValueId x, int64_t heads, int64_t head_dim, std::string name);
ValueId from_heads(Builder& b, ValueId x, Layout layout);

// Each head's vector divided by its root mean square, times w [head_dim].
ValueId head_rms(Builder& b, ValueId x, double eps);
ValueId head_norm(Builder& b, ValueId x, ValueId w, double eps);

// The leading `dims` of each head's vector, rotated in pairs (a, c) by the angle of each token:
// (a · cos − c · sin, c · cos + a · sin). cos and sin are [T, dims/2]. The pairs are those of the
// style, which is not none.
ValueId rotate(Builder& b, ValueId x, ValueId cos, ValueId sin, RopeStyle style, int64_t dims);

// cache [P, K, S/P, h] with new rows [1, K, T, h] where write_mask [P, 1, S/P, T] is 1.
ValueId blend_rows(Builder& b, ValueId cache, ValueId rows, ValueId write_mask);

// softmax(q · keys + mask) · values, with q [1, H, T, h] scaled, keys [1, K, h, S], values
// [1, K, S, u], mask [1, 1, T, S], K dividing H: [1, H, T, u]. The H/K query heads of a key head
// are rows of one matrix, so that no key is repeated. The keys may be in P pages, as in
// ir/graph/ops.h: keys [P, K, h, S/P], values [P, K, S/P, u], mask [P, 1, T, S/P]. `sinks` [1, H,
// 1, 1], which may be invalid, are one more score of each head, whose share is dropped.
ValueId attend(Builder& b, ValueId q, ValueId keys, ValueId values, ValueId mask, ValueId sinks);

}  // namespace moec
