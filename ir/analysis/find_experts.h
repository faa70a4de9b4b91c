// Which weights of a shard are whose expert's, told from what is computed and not from names: an
// expert is what is multiplied with its channel of the routing weights.
//
//   unrolled   each expert meets a slice of one channel: its weights are whole
//   bank       n experts meet a slice of n channels: each weight is n equal blocks along one axis
//
// Only ops that an output depends on count: an expert that is computed but not added is not there.
//
// A shard may hold several MoE layers. The last is found first; an earlier one lies in what the
// later router's logits are made from.
#pragma once

#include <vector>

#include "ir/base/enum_table.h"
#include "ir/graph/port_names.h"
#include "ir/graph/shard.h"

namespace moec {

enum class WeightRole : uint8_t {
  plain,    // belongs to no expert: norms, a shared expert
  expert,   // met by the routing weights of experts [first, first + count)
  routing,  // of the router: block e makes channel e of the routing weights; plain where the
            // router has more blocks than there are experts
};
constexpr auto enum_names(WeightRole) {
  return name_table<WeightRole>({"plain", "expert", "routing"});
}

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
// The routing weights are its input or output of that name, else the last scores of so many
// channels that are cut into channels, or spread for a bank. A weight of experts of two layers is
// nobody's.
IdMap<OpId, OpRole> find_experts(const Shard& shard, int64_t experts, size_t moe_layers = 1);

}  // namespace moec
