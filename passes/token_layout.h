// Token tensors between the layouts, and their channels as a two-dimensional grid.
#pragma once

#include <string>

#include "ir/graph/builder.h"

namespace moec {

// The same tokens and channels in another layout (nothing is emitted when it is that already).
ValueId to_layout(Builder& b, ValueId x, Layout layout);

// A token tensor whose n·m channels are seen as a grid [n, m]: channel c is (c / m, c % m).
//   channels  [1, n·m, T, 1] ⟷ [1, n, m, T], bc1s likewise
//   rows      [T, n·m]       ⟷ [T, n, m]
class ChannelGrid {
 public:
  // The grid of token tensors with this one's layout and tokens.
  ChannelGrid(Builder& b, ValueId like);

  ValueId split(ValueId x, int64_t n, int64_t m, std::string name = {}) const;
  ValueId join(ValueId grid, std::string name = {}) const;
  // The sizes of a constant grid, the same for each token.
  Dims constant_dims(int64_t n, int64_t m) const;

  int64_t outer_axis() const { return 1; }
  int64_t inner_axis() const { return 2; }
  Layout layout() const { return layout_; }

 private:
  Builder& b_;
  Layout layout_;
  int64_t tokens_;
};

}  // namespace moec
