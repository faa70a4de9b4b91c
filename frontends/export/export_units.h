// Which shards of an export's targets are made side by side.
#pragma once

#include <span>
#include <vector>

#include "ir/plan/plan.h"

namespace moec {

// Shards of all targets that hold the same part of the model, however each target cuts it: the
// attention of a layer, what follows it in the layer, several whole layers, the head.
struct ExportUnit {
  std::vector<std::vector<size_t>> shards;  // by target: of its plan, ascending
};

// Every shard of every plan once, in the order of the model. Each is a unit of its own where there
// is one plan.
std::vector<ExportUnit> export_units(std::span<const Plan* const> plans);

}  // namespace moec
