#include "passes/passes.h"
#include "passes/rewrite_each.h"
#include "passes/token_layout.h"

namespace moec {

namespace {

// W · x as a 1×1 convolution over the tokens, because the Neural Engine runs convolutions faster
// than matmuls.
std::vector<ValueId> to_conv(Builder& b, const Linear&, const std::vector<ValueId>& operands) {
  const Type type = b.type(operands[0]);
  Dims w_dims = b.type(operands[1]).dims;
  w_dims.insert(w_dims.end(), {1, 1});
  std::vector<ValueId> conv_operands = operands;
  const Layout form = is_channel_major(type.layout) ? type.layout : Layout::channels;
  conv_operands[0] = to_layout(b, operands[0], form);
  conv_operands[1] = b.reshape(operands[1], w_dims);
  return {to_layout(b, b.emit(Conv{}, conv_operands), type.layout)};
}

}  // namespace

Result<Shard> linear_to_conv(const Shard& shard, PassContext&) {
  return rewrite_each<Linear>(shard, Form::static_ops, no_scope, to_conv);
}

namespace {

// x · Wᵀ over rows. fold_weight_views turns the transpose of the weight into a view step.
std::vector<ValueId> to_matmul(Builder& b, const Linear&, const std::vector<ValueId>& operands) {
  const Layout layout = b.type(operands[0]).layout;
  ValueId x = to_layout(b, operands[0], Layout::rows);
  ValueId y = b.matmul(x, b.transpose(operands[1], {1, 0}));
  if (operands.size() == 3)
    y = b.add(y, b.reshape(operands[2], channel_vector_dims(Layout::rows, channels_of(b.type(y)))));
  return {to_layout(b, y, layout)};
}

}  // namespace

Result<Shard> linear_to_matmul(const Shard& shard, PassContext&) {
  return rewrite_each<Linear>(shard, Form::static_ops, no_scope, to_matmul);
}

}  // namespace moec
