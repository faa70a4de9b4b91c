#include "models/shards/head_grid.h"

namespace moec {

ValueId to_grid(Builder& b, ValueId x, int64_t heads) {
  const Type& type = b.type(x);
  const int64_t tokens = tokens_of(type), each = channels_of(type) / heads;
  if (type.layout != Layout::rows) return b.reshape(x, {1, heads, each, tokens});
  return b.transpose(b.reshape(x, {1, tokens, heads, each}), {0, 2, 3, 1});
}

ValueId from_grid(Builder& b, ValueId grid, const Type& like, std::string name) {
  const Dims sizes = b.type(grid).dims;
  if (like.layout == Layout::rows) grid = b.transpose(grid, {0, 3, 1, 2});
  const Type to = token_type(like.dtype, like.layout, sizes[1] * sizes[2], tokens_of(like));
  return b.reshape(grid, to.dims, to.layout, std::move(name));
}

}  // namespace moec
