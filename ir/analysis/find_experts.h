// Finds the expert to which each weight of a shard belongs, from the data flow and not from names:
// an expert is what is multiplied by its channel of the routing weights.
//
//   unrolled   each expert is multiplied by a slice of one channel: its weights are whole
//   bank       n experts are multiplied by n channels: each weight is n equal blocks along one axis
//
// Only ops that an output or a state depends on count: an expert that is computed but not added to
// the result is absent.
//
// A shard may hold several MoE layers. The last is found first; an earlier one is among the ops
// that the later router's logits depend on.
#pragma once

#include <vector>

#include "ir/analysis/cost.h"
#include "ir/base/enum_table.h"
#include "ir/graph/port_names.h"
#include "ir/graph/shard.h"
#include "ir/graph/weight_owner.h"

namespace moec {

// Block i of `count` equal blocks along `axis` belongs to expert first + i of the shard's MoE layer
// `moe_layer`, counted from 0 in the order in which they run.
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
  bool narrows_routing = false;  // a slice that chooses channels of the routing weights
};

// `experts` is the number of routing weights of an MoE layer, 0 in a shard that routes nothing;
// `moe_layers` is how many such layers the shard has. The shard is in form `static` or `placed`.
// The routing weights are the shard's input or output of that name; else the last scores of as many
// channels that are sliced into channels, or reshaped to be spread over a bank. A weight that
// experts of two layers use belongs to no expert.
// The matrix of a matmul may be the transpose of a weight; its share is along the weight's own
// axis.
IdMap<OpId, OpRole> find_experts(const Shard& shard, int64_t experts, size_t moe_layers = 1);

// Bytes of the weights of all experts, as weight_bytes() of ir/analysis/cost.h counts them. `roles`
// is what find_experts() found.
int64_t expert_weight_bytes(const Shard& shard, const IdMap<OpId, OpRole>& roles,
                            CodeFormOf form = nullptr);

}  // namespace moec
