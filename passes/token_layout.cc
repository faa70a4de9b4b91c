#include "passes/token_layout.h"

namespace moec {

// Channel-major layouts store elements in the same order, so a reshape converts between them; rows
// are the transpose.
ValueId to_layout(Builder& b, ValueId x, Layout layout) {
  const Type type = b.type(x);
  if (type.layout == layout) return x;
  const int64_t channels = channels_of(type), tokens = tokens_of(type);
  if (layout == Layout::rows)
    return b.transpose(b.reshape(x, {channels, tokens}), {1, 0}, Layout::rows);
  if (type.layout == Layout::rows) x = b.transpose(x, {1, 0});
  return b.reshape(x, token_type(type.dtype, layout, channels, tokens).dims, layout);
}

ChannelGrid::ChannelGrid(Builder& b, ValueId like)
    : b_(b), layout_(b.type(like).layout), tokens_(tokens_of(b.type(like))) {}

ValueId ChannelGrid::split(ValueId x, int64_t n, int64_t m, std::string name) const {
  Dims dims = is_channel_major(layout_) ? Dims{1, n, m, tokens_} : Dims{tokens_, n, m};
  return b_.reshape(x, std::move(dims), Layout::plain, std::move(name));
}

ValueId ChannelGrid::join(ValueId grid, std::string name) const {
  const Type& type = b_.type(grid);
  const int64_t channels = type.dims[outer_axis()] * type.dims[inner_axis()];
  return b_.reshape(grid, token_type(type.dtype, layout_, channels, tokens_).dims, layout_,
                    std::move(name));
}

Dims ChannelGrid::constant_dims(int64_t n, int64_t m) const {
  return is_channel_major(layout_) ? Dims{1, n, m, 1} : Dims{1, n, m};
}

}  // namespace moec
