// Token tensors as grids of heads, for ops per head.
#pragma once

#include <string>

#include "ir/graph/builder.h"

namespace moec {

inline constexpr size_t kHeadChannels = 2;  // axis of to_grid()

// Reshapes a token tensor to [1, heads, channels per head, T] in layout plain.
ValueId to_grid(Builder& b, ValueId x, int64_t heads);

// Reshapes a grid back to a token tensor with the layout and type of `like`.
ValueId from_grid(Builder& b, ValueId grid, const Type& like, std::string name);

}  // namespace moec
