// Products of weights with the only token of a step. Products of the same token run together,
// because waking threads and arranging the token cost about as much as a small product.
#pragma once

#include <vector>

#include "ir/graph/shard.h"

namespace moec {

struct WeightProduct {
  OpId op;
  ValueId token;   // has the elements of the token: the operand, or what the operand reshapes
  ValueId weight;  // in memory, stored or paged
  ValueId result;  // of the op, or of the reshapes that alone read it
  bool is_columns = false;  // the weight has a column per output, otherwise a row
  int64_t inner = 0, outputs = 0;
};

// Products of one token, in one part of a gate or outside of all parts, in the order of their ops.
using ProductGroup = std::vector<WeightProduct>;

struct WeightProducts {
  std::vector<ProductGroup> groups;
  IdMap<OpId, uint8_t> is_folded;  // 1: a reshape that only products read or precede
};

}  // namespace moec
