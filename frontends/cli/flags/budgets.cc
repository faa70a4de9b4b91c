#include "frontends/cli/flags/budgets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/base/at.h"
#include "ir/base/nearest.h"
#include "ir/base/parse_number.h"
#include "models/plan/target_budgets.h"

namespace moec {
namespace {

constexpr double kMega = 1e6;
constexpr std::array<std::string_view, 6> kNames = {"attn",   "moe",     "mlp",
                                                    "router", "lm_head", "layers"};

// A group of experts and a shared expert are parts of an MoE layer, so the budget of that layer
// limits them, too.
std::vector<ShardKind> kinds_named(std::string_view name) {
  if (name == "attn") return {ShardKind::attention};
  if (name == "moe") return {ShardKind::moe, ShardKind::shared, ShardKind::experts};
  return {*parse_enum<ShardKind>(name)};
}

Result<Budget> parse_budget(const std::string& text) {
  const auto megabytes = parse_positive(text);
  if (!megabytes || *megabytes > 1e9 || *megabytes * kMega < 1)
    return fail("plan.budget_value",
                fmt::format("--max-shard-mb: \"{}\" is not a number of MB", text),
                "give a number of at least 0.000001, for example --max-shard-mb moe=200,attn=1000");
  return Budget{std::llround(*megabytes * kMega)};
}

Status check_kind(const std::string& name, std::set<std::string>& seen) {
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end())
    return fail("plan.budget_kind",
                fmt::format("--max-shard-mb: there is no kind of shard \"{}\"{}", name,
                            did_you_mean(name, kNames)),
                fmt::format("the kinds are {}", fmt::join(kNames, ", ")));
  if (!seen.insert(name).second)
    return fail("plan.budget_kind", fmt::format("kind {} has two budgets", name),
                "give each kind once");
  return {};
}

}  // namespace

Result<Budgets> parse_budgets(const std::vector<std::string>& words, const Target& target) {
  if (words.size() == 1 && words[0] == "none") return Budgets{};
  Budgets budgets = target_budgets(target);
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
