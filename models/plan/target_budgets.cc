#include "models/plan/target_budgets.h"

#include <algorithm>

#include "ir/target/target_rules.h"

namespace moec {

Budgets target_budgets(const Target& target) {
  Budgets budgets;
  for (const TargetRule& rule : target.rules) {
    if (rule.condition != RuleCondition::weight_bytes_above) continue;
    for (size_t kind = 0; kind < budgets.size(); ++kind) {
      if (!concerns(rule, static_cast<ShardKind>(kind))) continue;
      int64_t& bytes = budgets[kind].bytes;
      // 0 means that no rule has set a budget. Of several rules, the strictest one applies.
      bytes = bytes == 0 ? rule.limit : std::min(bytes, rule.limit);
    }
  }
  return budgets;
}

}  // namespace moec
