// Which weights of a shard are whose expert's, told from what is computed and not from names: an
// expert is what is multiplied with its channel of the routing weights.
//
//   unrolled   each expert meets a slice of one channel: its weights are whole
//   bank       n experts meet a slice of n channels: each weight is n equal blocks along one axis
//
// Only ops that an output depends on count: an expert that is computed but not added is not there.
#pragma once

#include <vector>

#include "ir/shard.h"

namespace moec {

enum class WeightRole : uint8_t {
  plain,    // belongs to no expert: norms, a shared expert
  expert,   // met by the routing weights of experts [first, first + count)
  routing,  // of the router: block e makes channel e of the routing weights
};
constexpr std::array<std::string_view, 3> enum_names(WeightRole) {
  return {"plain", "expert", "routing"};
}

// Block i of `count` equal blocks along `axis` belongs to expert first + i.
struct WeightShare {
  WeightRole role = WeightRole::plain;
  int64_t first = 0, count = 1;
  size_t axis = 0;
  bool operator==(const WeightShare&) const = default;
};

struct OpRole {
  WeightShare share;             // of a weight op
  bool live = false;             // an output or a state depends on the op
  bool narrows_routing = false;  // a slice that chooses channels of the routing weights
};

// `experts` is the number of routing weights; 0 in a shard of a dense layer, which has none. The
// shard is in form `static` or `placed`. The routing weights are its input or output of that name,
// else the last value of so many channels that is cut into channels, or spread for a bank.
IdMap<OpId, OpRole> find_experts(const Shard& shard, int64_t experts);

inline constexpr std::string_view kRoutingWeights = "routing_weights";

}  // namespace moec
