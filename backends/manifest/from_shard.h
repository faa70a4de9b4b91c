// The parts of a manifest that are computed from a shard: used by the export that writes them, and
// by the checks that compare them.
#pragma once

#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/graph/shard.h"

namespace moec {

// A shard's inputs, or its outputs, in order.
std::vector<manifest::Port> ports_of(const Shard& shard, bool inputs);

// Where each op of a placed shard is predicted to run, by unit.
std::vector<manifest::Placement> predict_placement(const Shard& shard, const Target& target);

// The names of the labels, by id.
std::vector<std::string> label_names(const manifest::Tagging& tagging);

}  // namespace moec
