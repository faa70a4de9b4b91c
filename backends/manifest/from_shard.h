// Computes parts of a manifest from a shard. Exports write these parts, and checks compare them.
#pragma once

#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/graph/shard.h"

namespace moec {

// Returns the inputs or outputs of a shard, in order.
std::vector<manifest::Port> ports_of(const Shard& shard, bool inputs);

// Returns the predicted unit of the ops of a placed shard, grouped by unit.
std::vector<manifest::Placement> predict_placement(const Shard& shard, const Target& target);

// Returns the names of the labels, by id.
std::vector<std::string> label_names(const manifest::Tagging& tagging);

}  // namespace moec
