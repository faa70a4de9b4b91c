// How far a model was cut, and why, as JSON: of report.json and of plans.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "models/plan/cut_options.h"

namespace moec {

// A list with the kind, the parts, the slices and the reason of each cut.
nlohmann::ordered_json cuts_json(std::span<const ShardCut> cuts);

}  // namespace moec
