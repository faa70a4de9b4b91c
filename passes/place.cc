#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "ir/target/target_rules.h"
#include "passes/passes.h"

namespace moec {
namespace {

Place place_of(const Shard& shard, const Op& op) {
  return {.shard = shard.name,
          .op = op.results.empty() ? std::string(mnemonic(op.data)) : shard.label(op.results[0])};
}

Diagnostic state_refusal(const Target& target, const Shard& shard, const State& state) {
  return {
      Severity::error,
      "place.state",
      fmt::format("state \"{}\" is declared, but target {} has no state", state.name, target.name),
      "build the shard with the cache as inputs and outputs (cache form append)",
      {.shard = shard.name}};
}

// The ops that one finding about a rule concerns.
struct Concerned {
  std::set<std::string_view> names;
  size_t count = 0;
  Place first;
};

// " (CPU would run it)"; empty for a warning if the op stays on the target's unit.
std::string fate(const TargetRule& rule) {
  if (!rule.unit.empty()) return fmt::format(" ({} would run it)", rule.unit);
  return rule.severity == Severity::error ? " (no unit runs it)" : "";
}

Diagnostic rule_finding(const Target& target, const TargetRule& rule, const Concerned& ops) {
  const std::string names = fmt::format("{}", fmt::join(ops.names, ", "));
  return {rule.severity, "target." + rule.id,
          fmt::format("rule {} of target {} applies to {}: {}{}", rule.id, target.name,
                      ops.count == 1 ? names : fmt::format("{} ops ({})", ops.count, names),
                      rule.reason, fate(rule)),
          fmt::format("run moec check --target {} --explain {} for its source and confidence",
                      target.name, rule.id),
          ops.first};
}

void add(Concerned& ops, const Shard& shard, const Op& op) {
  if (ops.count++ == 0) ops.first = place_of(shard, op);
  ops.names.insert(mnemonic(op.data));
}

}  // namespace

Result<Shard> place(const Shard& shard, PassContext& context) {
  const Target& target = context.options.target;
  Diagnostics refusals;
  if (!target.has_state)
    for (const State& state : shard.states) refusals.push_back(state_refusal(target, shard, state));
  // Each rejected op gets a separate error. A warning may concern hundreds of ops, so there is one
  // warning per rule, with the number of ops.
  std::map<const TargetRule*, Concerned, std::less<>> warned;
  for (const auto& [op, rule] : find_breaches(target, shard)) {
    Concerned alone;
    Concerned& ops = rule->severity == Severity::error ? alone : warned[rule];
    add(ops, shard, shard.ops[op]);
    if (rule->severity == Severity::error) refusals.push_back(rule_finding(target, *rule, alone));
  }
  for (const TargetRule& rule : target.rules)
    if (warned.contains(&rule)) context.notes.push_back(rule_finding(target, rule, warned[&rule]));
  if (!refusals.empty()) return fail(std::move(refusals));
  Shard placed = shard;
  placed.form = Form::placed;
  return placed;
}

}  // namespace moec
