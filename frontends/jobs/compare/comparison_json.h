// The report of a comparison as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "frontends/jobs/compare/compare_report.h"

namespace moec {

// The report's predictions, shards, experts and routers.
nlohmann::ordered_json comparison_json(const CompareReport& report);

}  // namespace moec
