// The report of a validation as JSON (frontends/report/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "frontends/validate/validate_model.h"

namespace moec {

// The thresholds, the shards and the text. What falls short is an error validate.shard or
// validate.text.
nlohmann::ordered_json validation_json(const ValidationReport& report);

}  // namespace moec
