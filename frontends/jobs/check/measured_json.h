// The comparison of measured with predicted placement as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "frontends/jobs/check/measured.h"

namespace moec {

// The machine, the ops that were measured elsewhere than predicted, and the score of each rule.
nlohmann::ordered_json measured_json(const PlacementComparison& comparison,
                                     const Measured& measured);

}  // namespace moec
