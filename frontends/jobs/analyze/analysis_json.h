// An analysis as JSON (ir/base/report_json.h): what is derived of the profile, which is a
// file of its own.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/measure/analysis.h"

namespace moec {

// Fields that were not measured are absent, as is `folder` if it is empty.
nlohmann::ordered_json analysis_json(const Analysis& analysis, const std::string& folder);

}  // namespace moec
