// Converts the cuts of a model to JSON, for report.json and for plans.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "models/plan/cut_options.h"

namespace moec {

// Returns an array with the kind, parts, slices and reason of each cut.
nlohmann::ordered_json cuts_json(std::span<const ShardCut> cuts);

}  // namespace moec
