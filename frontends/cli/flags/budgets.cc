#include "frontends/cli/flags/budgets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "frontends/cli/flags/parse_number.h"
#include "ir/base/at.h"
#include "ir/base/nearest.h"

namespace moec {
namespace {

constexpr double kMega = 1e6;
constexpr std::array<std::string_view, 6> kNames = {"attn",   "moe",     "mlp",
                                                    "router", "lm_head", "layers"};

// A user sees groups of experts as parts of an MoE layer.
std::vector<ShardKind> kinds_named(std::string_view name) {
  if (name == "attn") return {ShardKind::attention};
  if (name == "moe") return {ShardKind::moe, ShardKind::experts};
  return {*parse_enum<ShardKind>(name)};
}

// The least that a rule of the target, warning or error, says of shards of a kind.
Budgets budgets_of(const Target& target) {
  Budgets budgets;
  for (const TargetRule& rule : target.rules) {
    if (rule.condition != RuleCondition::weight_bytes_above) continue;
    for (size_t kind = 0; kind < budgets.size(); ++kind) {
      const auto& kinds = rule.kinds;
      if (!kinds.empty() &&
          std::find(kinds.begin(), kinds.end(), static_cast<ShardKind>(kind)) == kinds.end())
        continue;
      int64_t& bytes = budgets[kind].bytes;
      bytes = bytes == 0 ? rule.limit : std::min(bytes, rule.limit);
    }
  }
  return budgets;
}

Result<Budget> parse_budget(const std::string& text) {
  const auto megabytes = parse_positive(text);
  if (!megabytes || *megabytes > 1e9)
    return fail("plan.budget_value", fmt::format("a budget of \"{}\" MB", text),
                "give a number above 0, for example --max-shard-mb moe=200,attn=1000");
  return Budget{std::llround(*megabytes * kMega), true};
}

Status check_kind(const std::string& name, std::set<std::string>& seen) {
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end())
    return fail("plan.budget_kind",
                fmt::format("no shards are of kind \"{}\"{}", name, did_you_mean(name, kNames)),
                fmt::format("known kinds: {}", fmt::join(kNames, ", ")));
  if (!seen.insert(name).second)
    return fail("plan.budget_kind", fmt::format("kind {} has two budgets", name),
                "give each kind once");
  return {};
}

}  // namespace

Result<Budgets> parse_budgets(const std::vector<std::string>& words, const Target& target) {
  if (words.size() == 1 && words[0] == "none") return Budgets{};
  Budgets budgets = budgets_of(target);
  std::set<std::string> seen;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::string name = equals == std::string::npos ? "" : word.substr(0, equals);
    MOEC_ASSIGN(const Budget budget,
                parse_budget(equals == std::string::npos ? word : word.substr(equals + 1)));
    if (equals == std::string::npos && words.size() == 1) {
      budgets.fill(budget);
      return budgets;
    }
    MOEC_TRY(check_kind(name, seen));
    for (const ShardKind kind : kinds_named(name)) at(budgets, kind) = budget;
  }
  return budgets;
}

}  // namespace moec
