// The report of a validation as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "frontends/jobs/validate/validate_model.h"

namespace moec {

// The report's thresholds, shards and text. A missed threshold is an error validate.shard or
// validate.text.
nlohmann::ordered_json validation_json(const ValidationReport& report);

}  // namespace moec
