// The reports of a check as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "backends/targets/explain_rule.h"
#include "frontends/jobs/check/check_folder.h"
#include "frontends/jobs/check/check_split.h"

namespace moec {

// The shards, all broken rules, and the predicted coverage. `with_ops` also lists every op with its
// predicted unit, and every finding.
nlohmann::ordered_json check_json(const CheckReport& report, bool with_ops);
// "nodes", the report of each, and the diagnostics of all together.
nlohmann::ordered_json check_json(const SplitCheck& split, bool with_ops);

// The rules that explain_rule() found.
nlohmann::ordered_json rules_json(const std::vector<ExplainedRule>& rules);

// What explain_weight_forms() found.
nlohmann::ordered_json weight_forms_json(const std::vector<ExplainedForms>& entries);

}  // namespace moec
