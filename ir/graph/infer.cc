#include "ir/graph/infer.h"

#include "ir/graph/infer_op.h"

namespace moec {
Inferred infer(const OpData& data, std::span<const Type> operands, const StateLookup& state_type) {
  inference::Check check(operands, state_type);
  return std::visit([&](const auto& op) { return inference::infer_op(op, check); }, data);
}

}  // namespace moec
