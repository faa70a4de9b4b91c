// The steps of attention before the scores, on tensors of heads [1, …, head_dim].
#pragma once

#include "ir/graph/builder.h"
#include "ir/graph/composite_operands.h"

namespace moec {

using AttentionValues = AttentionOperands<ValueId>;  // absent operands are invalid

// Queries or keys, with the operand of their norm. The tensor is [1, heads, T, head_dim] or [1, T,
// heads, head_dim]; token_axis is 2 or 1.
struct HeadTensor {
  ValueId x, norm;
  int64_t token_axis = 2;
};

// Applies the op's norm and its rotation, in the order that the op states.
ValueId normed_and_rotated(Builder& b, const Attention& op, const AttentionValues& operands,
                           const HeadTensor& heads);

// Each head's vector divided by its root mean square.
ValueId head_rms(Builder& b, ValueId x, double eps);

}  // namespace moec
