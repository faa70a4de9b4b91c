#include "passes/turned_factor.h"

namespace moec {

std::optional<ValueId> turned_factor(const Shard& shard, const Op& op) {
  if (!std::holds_alternative<MatMul>(op.data)) return std::nullopt;
  const ValueId right = op.operands[1];
  const auto* transpose = shard.producer_as<Transpose>(right);
  const bool is_turned = transpose && transpose->perm == std::vector<int64_t>{1, 0};
  if (!is_turned || shard.type(op.operands[0]).rank() != 2) return std::nullopt;
  return shard.ops[shard.values[right].producer].operands.front();
}

}  // namespace moec
