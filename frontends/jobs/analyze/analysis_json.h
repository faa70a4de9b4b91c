// Serializes an analysis to JSON (ir/base/report_json.h). Contains only the statistics derived from
// the profile, which is a separate file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/measure/analysis.h"

namespace moec {

// Omits unmeasured fields, and `folder` if it is empty.
nlohmann::ordered_json analysis_json(const Analysis& analysis, const std::string& folder);

}  // namespace moec
