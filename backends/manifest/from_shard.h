// What a manifest says of a shard, computed from the shard itself: by the export that writes it,
// and by those who compare.
#pragma once

#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/graph/shard.h"

namespace moec {

// A shard's inputs, or its outputs, in their order.
std::vector<manifest::Port> ports_of(const Shard& shard, bool inputs);

// Where each op of a placed shard is predicted to run, by unit.
std::vector<manifest::Placement> predict_placement(const Shard& shard, const Target& target);

// The labels' names, by id.
std::vector<std::string> label_names(const manifest::Tagging& tagging);

}  // namespace moec
