// Report of `moec analyze --table` as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/jobs/analyze/tabulate_model.h"

namespace moec {

// The fields of analysis_json() if experts were measured, and "table" (model_table.h).
nlohmann::ordered_json tabulated_json(const TabulatedModel& tabulated, const std::string& folder);

}  // namespace moec
