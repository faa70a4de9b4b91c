// What moec check prints.
#pragma once

#include <string>
#include <vector>

#include "frontends/check/check_folder.h"

namespace moec {

// A table of shards, the rules that are broken, the findings. `with_ops` also lists each op that is
// predicted to run elsewhere than on the target's unit, with its rule.
void print_check(const CheckReport& report, bool with_ops);
// The same as one JSON object; here `with_ops` lists every op.
void print_check_json(const CheckReport& report, bool with_ops);

// What a rule says, with number, chips, confidence and source.
std::string describe_rule(const TargetRule& rule);

struct ExplainedRule {
  std::string target;
  TargetRule rule;
};
void print_rules_json(const std::vector<ExplainedRule>& rules);

}  // namespace moec
