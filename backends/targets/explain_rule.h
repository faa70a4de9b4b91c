// The rules of targets by their id, for `moec check --explain`.
#pragma once

#include <string>
#include <vector>

#include "ir/target/target.h"

namespace moec {

struct ExplainedRule {
  std::string target;
  TargetRule rule;
};

// The rules that `id` names: one of that id, or all whose id is `id` and a suffix behind a dot, as
// rules that differ by chip family have. They are those of the named target, or of every built-in
// one if `target` is empty. Errors: check.unknown_rule, which lists the known ids; those of
// find_target().
Result<std::vector<ExplainedRule>> explain_rule(const std::string& id, const std::string& target);

// A rule as text of several lines: its reason, condition, limit, chips, confidence and source.
std::string describe_rule(const TargetRule& rule);

}  // namespace moec
