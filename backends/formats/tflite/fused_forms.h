// Ops of a shard that become one TFLite op together.
//   matmul(x, transpose of a weight [N, K])        FULLY_CONNECTED, which reads rows [N, K]
//   mul(x, mul(add(erf(mul(x, 1/√2)), 1), 1/2))    GELU: TFLite has no erf
#pragma once

#include "ir/graph/shard.h"

namespace moec {

// The weight [N, K] of a matmul that becomes a FULLY_CONNECTED; an invalid id for other ops.
ValueId fully_connected_weight(const Shard& shard, const Op& op);

// The operand x of an op that becomes a GELU; an invalid id for other ops.
ValueId gelu_operand(const Shard& shard, const Op& op);

// True for each op that a file needs: outputs depend on it other than through the inner values of a
// fused form.
IdMap<OpId, uint8_t> needed_ops(const Shard& shard);

}  // namespace moec
