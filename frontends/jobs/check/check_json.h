// The reports of a check as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backends/targets/explain_rule.h"
#include "frontends/jobs/check/check_folder.h"
#include "frontends/jobs/check/check_split.h"
#include "frontends/measure/node_data.h"

namespace moec {

// Shards, broken rules and predicted coverage; `with_ops` adds every op with its predicted unit,
// and every finding.
nlohmann::ordered_json check_json(const CheckReport& report, bool with_ops);
// "nodes" with a report per node, and the diagnostics of the whole split.
nlohmann::ordered_json check_json(const SplitCheck& split, bool with_ops);

// The rules that explain_rule() found.
nlohmann::ordered_json rules_json(const std::vector<ExplainedRule>& rules);

// Result of explain_weight_forms().
nlohmann::ordered_json weight_forms_json(const std::vector<ExplainedForms>& entries);

// Returns the text of kExpectedPlacement. Each graph has its shard, token width and digest. Each
// computing op has its name in the file, its kind and its predicted unit; if that is not the
// target's unit, also the rule.
std::string expected_placement(const CheckReport& report);

// Returns the overlays for Model Explorer: "placement" with each op's predicted unit, followed by
// the rule for ops on another unit, and "weights" with the bytes of each op's weights.
std::vector<NodeOverlay> check_overlays(const CheckReport& report);

// Returns a SARIF log with one run. The log lists all rules of the target, with help texts. Its
// results are the report's rule findings, with the shard's file as the artifact, and the shard and
// op as logical locations.
std::string to_sarif(const CheckReport& report);

}  // namespace moec
