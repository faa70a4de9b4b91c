// What `moec check` prints, for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "backends/targets/explain_rule.h"
#include "frontends/check/check_folder.h"

namespace moec {

// A table of the shards, the rules that they break with the number of files and ops, and of the
// findings of each rule the first. `with_ops` lists all of them, and each op that is predicted to
// run on another unit than the target's, with the rule that says so.
void print_check(const CheckReport& report, bool with_ops);
// The same as one JSON object, which has all broken rules; here `with_ops` lists every op.
void print_check_json(const CheckReport& report, bool with_ops);

// A rule as text: its reason, condition, limit, chips, confidence and source.
std::string describe_rule(const TargetRule& rule);

void print_rules_json(const std::vector<ExplainedRule>& rules);

}  // namespace moec
