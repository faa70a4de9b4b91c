#include "backends/targets/explain_rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backends/targets/find_target.h"
#include "backends/targets/load_target.h"
#include "ir/target/weight_support.h"

namespace moec {
namespace {

// An id without its suffix names the rules of all chip families: "S2" names S2.h13 and S2.h16.
bool is_named(const TargetRule& rule, const std::string& id) {
  return rule.id == id || rule.id.starts_with(id + ".");
}

// Error messages list the returned names.
std::vector<std::string> looked_at_by(const std::string& target) {
  if (!target.empty()) return {target};
  const std::vector<std::string_view> builtin = builtin_target_names();
  return {builtin.begin(), builtin.end()};
}

// Selects all entries for weight forms. The name cannot collide with a form, because
// parse_weight_form() does not accept it.
constexpr std::string_view kAllForms = "weights";

bool lists_form(const TargetWeightForms& forms, const std::string& text) {
  if (text == kAllForms) return true;
  // An entry can be a pattern ("int4-lut:g*"), so comparing texts is not enough.
  const auto form = parse_weight_form(text);
  return form && std::any_of(forms.forms.begin(), forms.forms.end(), [&](const std::string& entry) {
           return names_weight_form(entry, *form);
         });
}

}  // namespace

Result<std::vector<ExplainedRule>> explain_rule(const std::string& id, const std::string& target) {
  const std::vector<std::string> names = looked_at_by(target);
  // Collects all matches: several chip families or several targets can have the rule.
  std::vector<ExplainedRule> found;
  std::vector<std::string> known;
  for (const std::string& name : names) {
    MOEC_ASSIGN(const Target looked_at, find_target(name));
    for (const TargetRule& rule : looked_at.rules) {
      if (is_named(rule, id)) found.push_back({looked_at.name, rule});
      known.push_back(rule.id);
    }
  }
  if (!found.empty()) return found;
  return fail("check.unknown_rule",
              fmt::format("target {} has no rule '{}'", fmt::join(names, " or "), id),
              fmt::format("use one of its rules: {}", fmt::join(known, ", ")));
}

std::string describe_rule(const TargetRule& rule) {
  std::string text =
      fmt::format("{} ({}): {}\n", rule.id, severity_name(rule.severity), rule.reason);
  text += fmt::format("  condition: {}\n", enum_name(rule.condition));
  // `limit` is 0 for conditions without one; a limit in a target file is positive.
  if (rule.limit > 0) text += fmt::format("  limit: {}\n", rule.limit);
  if (!rule.chips.empty()) text += fmt::format("  chips: {}\n", fmt::join(rule.chips, ", "));
  if (!rule.unit.empty()) text += fmt::format("  runs on: {}\n", rule.unit);
  return text + fmt::format("  confidence: {}\n  source: {}\n", rule.confidence, rule.source);
}

std::vector<std::string_view> projections_of(const TargetWeightForms& forms) {
  std::vector<std::string_view> names;
  for (const ProjectionForm projection : forms.projections) names.push_back(enum_name(projection));
  return names;
}

std::string describe_weight_forms(const ExplainedForms& entry) {
  const TargetWeightForms& forms = entry.forms;
  std::string text =
      fmt::format("{} ({}): {}: {}\n", fmt::join(forms.forms, ", "), entry.target,
                  forms.severity == Severity::error ? "refused" : "accepted", forms.reason);
  if (!forms.projections.empty())
    text += fmt::format("  with: --form {}\n", fmt::join(projections_of(forms), ", "));
  return text + fmt::format("  confidence: {}\n  source: {}\n", forms.confidence, forms.source);
}

bool names_weight_forms(const std::string& text) {
  return text == kAllForms || parse_weight_form(text).has_value();
}

Result<std::vector<ExplainedForms>> explain_weight_forms(const std::string& form,
                                                         const std::string& target) {
  const std::vector<std::string> names = looked_at_by(target);
  std::vector<ExplainedForms> found;
  std::vector<std::string> known;
  for (const std::string& name : names) {
    MOEC_ASSIGN(const Target looked_at, find_target(name));
    for (const TargetWeightForms& forms : looked_at.weights) {
      if (lists_form(forms, form)) found.push_back({looked_at.name, forms});
      known.insert(known.end(), forms.forms.begin(), forms.forms.end());
    }
  }
  if (!found.empty()) return found;
  return fail(
      "check.unknown_form",
      fmt::format("target {} has no entry for weights as {}", fmt::join(names, " or "), form),
      fmt::format("use one of {}, or float", fmt::join(known, ", ")));
}

}  // namespace moec
