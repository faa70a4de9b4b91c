// The report of a comparison of groups of experts, as JSON (ir/base/report_json.h) and as
// a table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/jobs/compare/compare_groups.h"

namespace moec {

nlohmann::ordered_json group_report_json(const GroupReport& report);

// The figures, the findings, and whether all is well, in lines.
std::string group_table(const GroupReport& report);

}  // namespace moec
