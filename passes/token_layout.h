// Converts token tensors between layouts, and views their channels as a two-dimensional grid.
#pragma once

#include <string>

#include "ir/graph/builder.h"

namespace moec {

// Converts x to a token layout. Emits nothing if x already has it.
ValueId to_layout(Builder& b, ValueId x, Layout layout);

// Views the n·m channels of a token tensor as a grid [n, m]: channel c is (c / m, c % m).
//   channels  [1, n·m, T, 1] ⟷ [1, n, m, T], bc1s likewise
//   rows      [T, n·m]       ⟷ [T, n, m]
class ChannelGrid {
 public:
  // For token tensors with the layout and the number of tokens of `like`.
  ChannelGrid(Builder& b, ValueId like);

  ValueId split(ValueId x, int64_t n, int64_t m, std::string name = {}) const;
  ValueId join(ValueId grid, std::string name = {}) const;
  // Sizes of a constant grid that broadcasts over tokens.
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
