// Groups the shards of an export's targets by the part of the model that they hold.
#pragma once

#include <span>
#include <vector>

#include "ir/model/plan.h"

namespace moec {

// The shards of all targets that hold one part of the model, however each target cuts that part:
// the attention of a layer, the feed-forward part of a layer, several whole layers, or the head.
// They are exported at the same time, because they read the same tensors.
struct ExportUnit {
  std::vector<std::vector<size_t>> shards;  // by target: ascending indices into its plan
};

// Every shard of every plan is in exactly one unit; units are in the order of the model. With a
// single plan each shard is a unit of its own.
std::vector<ExportUnit> export_units(std::span<const Plan* const> plans);

}  // namespace moec
