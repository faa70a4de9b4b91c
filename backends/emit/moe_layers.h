// The MoE layers of an emitted shard, and the weight owners that follow from them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/analysis/find_experts.h"
#include "ir/graph/weight_owner.h"

namespace moec {

struct MoeLayers {
  int64_t experts = 0;          // per MoE layer of the model
  std::vector<int64_t> layers;  // layer numbers in the model, in the shard's execution order
};

// The owner of a weight with this share; `layers` is MoeLayers::layers.
WeightOwner owner_of(const WeightShare& share, const std::vector<int64_t>& layers);

// The owners of all weights of the shard, keyed by `name` of the weight's value. The shard must be
// in form placed.
WeightOwners owners_of(const Shard& shard, const MoeLayers& moe,
                       const std::function<std::string(ValueId)>& name);

}  // namespace moec
