#include "backends/targets/explain_rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/targets/find_target.h"
#include "backends/targets/load_target.h"

namespace moec {
namespace {

bool is_named(const TargetRule& rule, const std::string& id) {
  return rule.id == id || rule.id.starts_with(id + ".");
}

}  // namespace

Result<std::vector<ExplainedRule>> explain_rule(const std::string& id, const std::string& target) {
  const std::vector<std::string_view> builtin = builtin_target_names();
  std::vector<std::string> names(builtin.begin(), builtin.end());
  if (!target.empty()) names = {target};
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
              fmt::format("the rules are {}", fmt::join(known, ", ")));
}

std::string describe_rule(const TargetRule& rule) {
  std::string text =
      fmt::format("{} ({}): {}\n", rule.id, severity_name(rule.severity), rule.reason);
  text += fmt::format("  condition: {}\n", enum_name(rule.condition));
  if (rule.limit > 0) text += fmt::format("  limit: {}\n", rule.limit);
  if (!rule.chips.empty()) text += fmt::format("  chips: {}\n", fmt::join(rule.chips, ", "));
  if (!rule.unit.empty()) text += fmt::format("  runs instead on: {}\n", rule.unit);
  return text + fmt::format("  confidence: {}\n  source: {}\n", rule.confidence, rule.source);
}

}  // namespace moec
