// The reports of a check as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
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

// The file's text: for each graph its shard, width and digest, and for each op that computes its
// name in the package, its kind, its predicted unit, and the rule if that is not the target's unit.
std::string expected_placement(const CheckReport& report);

// A log of one run. Its rules are all rules of the target, with help text. Its results are the rule
// findings of the report; each has the shard's file as artifact, and shard and op as logical
// location.
std::string to_sarif(const CheckReport& report);

}  // namespace moec
