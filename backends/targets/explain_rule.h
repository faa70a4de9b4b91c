// The rules of targets by their id, and what they say of forms of weights, for
// `moec check --explain`.
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

struct ExplainedForms {
  std::string target;
  TargetWeightForms forms;
};

// The names of the projections that the forms go with; none: all.
std::vector<std::string_view> projections_of(const TargetWeightForms& forms);
// An entry as text of several lines: the forms, whether they are taken, the reason, confidence and
// source.
std::string describe_weight_forms(const ExplainedForms& entry);

// Whether the text is a form of weights (ir/graph/weight_form.h), or "weights" for all of them.
bool names_weight_forms(const std::string& text);

// The entries that name the form, of the targets that explain_rule() looks at. Errors:
// check.unknown_form (no target names it), those of find_target().
Result<std::vector<ExplainedForms>> explain_weight_forms(const std::string& form,
                                                         const std::string& target);

}  // namespace moec
