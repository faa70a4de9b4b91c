// Groups the shards of several targets by the part of the model that they contain.
#pragma once

#include <span>
#include <vector>

#include "ir/model/plan.h"

namespace moec {

// The shards of all targets for one part of the model: the attention of a layer, its feed-forward
// part, several whole layers, or the head. Targets may cut that part differently. The shards are
// exported at the same time, because they read the same tensors.
struct ExportUnit {
  std::vector<std::vector<size_t>> shards;  // by target: ascending indices into its plan
};

// Returns the units in model order. Every shard of every plan is in exactly one unit. With a single
// plan, each shard is a unit.
std::vector<ExportUnit> export_units(std::span<const Plan* const> plans);

}  // namespace moec
