// Finds and describes target rules and weight-form entries, for `moec check --explain`.
#pragma once

#include <string>
#include <vector>

#include "ir/target/target.h"

namespace moec {

struct ExplainedRule {
  std::string target;
  TargetRule rule;
};

// The rule with this id, or all rules with ids `id`.SUFFIX, which differ by chip family. Searches
// the named target, or all built-in ones if `target` is empty. Errors: check.unknown_rule, which
// lists the known ids; those of find_target().
Result<std::vector<ExplainedRule>> explain_rule(const std::string& id, const std::string& target);

// Formats a rule on several lines: reason, condition, limit, chips, confidence and source.
std::string describe_rule(const TargetRule& rule);

struct ExplainedForms {
  std::string target;
  TargetWeightForms forms;
};

// The names of the projection forms that the entry applies to; empty: all.
std::vector<std::string_view> projections_of(const TargetWeightForms& forms);
// Formats an entry on several lines: forms, accepted or rejected, reason, confidence and source.
std::string describe_weight_forms(const ExplainedForms& entry);

// True if the text is a weight form (ir/graph/weight_form.h), or "weights" for all forms.
bool names_weight_forms(const std::string& text);

// The entries for the form in the targets that explain_rule() searches. Errors: check.unknown_form
// (no target has an entry), those of find_target().
Result<std::vector<ExplainedForms>> explain_weight_forms(const std::string& form,
                                                         const std::string& target);

}  // namespace moec
