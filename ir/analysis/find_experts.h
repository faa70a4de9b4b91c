// Finds the expert of each weight in a shard. The search follows the data flow, not names: an
// expert's values are multiplied by the expert's channel of the routing weights.
//
//   unrolled   a slice of one channel multiplies each expert; its weights are whole tensors
//   bank       n channels multiply n experts; each weight is n equal blocks along one axis
//   moe        as a bank; the blocks lie along axis 0
//
// Only live ops are considered: ops that an output or a state depends on. An expert that is
// computed but not added to the result is reported as absent.
//
// A shard may contain several MoE layers. The search finds the last layer first, then looks for
// earlier ones among the ops that its router's logits depend on.
#pragma once

#include <vector>

#include "ir/analysis/cost.h"
#include "ir/base/enum_table.h"
#include "ir/graph/port_names.h"
#include "ir/graph/shard.h"
#include "ir/graph/weight_owner.h"

namespace moec {

// Block i of `count` equal blocks along `axis` belongs to expert first + i of MoE layer
// `moe_layer`. MoE layers of the shard are numbered from 0 in execution order.
struct WeightShare {
  WeightRole role = WeightRole::plain;
  size_t moe_layer = 0;
  int64_t first = 0, count = 1;
  size_t axis = 0;
  bool operator==(const WeightShare&) const = default;
};

struct OpRole {
  WeightShare share;             // of a weight op
  bool live = false;             // an output or a state depends on the op
  bool narrows_routing = false;  // the op slices channels of the routing weights
};

// Returns the role of each op. The shard must be in form `static` or `placed`. `experts` is the
// number of routing weights per MoE layer, 0 if the shard routes nothing. `moe_layers` is the
// number of MoE layers in the shard.
// The routing weights are the input or output named kRoutingWeights. Without such a port, the
// routing weights are the last value with `experts` channels that is sliced by channel (unrolled),
// an operand of a moe, or reshaped for a bank. A weight that experts of two layers share belongs to
// no expert. If a matmul reads a transposed weight, `axis` is an axis of the weight itself.
IdMap<OpId, OpRole> find_experts(const Shard& shard, int64_t experts, size_t moe_layers = 1);

// Bytes of the weights of all experts, counted as by weight_bytes() in ir/analysis/cost.h. `roles`
// is the result of find_experts().
int64_t expert_weight_bytes(const Shard& shard, const IdMap<OpId, OpRole>& roles,
                            CodeFormOf form = nullptr);

}  // namespace moec
