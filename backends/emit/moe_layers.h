// The MoE layers of an emitted shard, and the ownership of its weights that follows from them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/analysis/find_experts.h"
#include "ir/graph/weight_owner.h"

namespace moec {

struct MoeLayers {
  int64_t experts = 0;          // of each MoE layer of the model
  std::vector<int64_t> layers;  // of the model, in the order in which the shard runs them
};

// The owner of a weight with this share: `layers` as in MoeLayers.
WeightOwner owner_of(const WeightShare& share, const std::vector<int64_t>& layers);

// The owners of all weights of the shard, by the name that the file gives each. The shard must be
// in form placed.
WeightOwners owners_of(const Shard& shard, const MoeLayers& moe,
                       const std::function<std::string(ValueId)>& name);

}  // namespace moec
