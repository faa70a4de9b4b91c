#include <fmt/format.h>

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

Diagnostic rule_finding(const Target& target, const TargetRule& rule, const Shard& shard,
                        const Op& op) {
  const std::string unit =
      rule.unit.empty() ? "nothing runs it" : fmt::format("{} would run it", rule.unit);
  return {rule.severity, "place.rule",
          fmt::format("rule {} of target {} concerns {}: {} ({})", rule.id, target.name,
                      mnemonic(op.data), rule.reason, unit),
          fmt::format("moec check --explain {} tells its source and confidence", rule.id),
          place_of(shard, op)};
}

}  // namespace

Result<Shard> place(const Shard& shard, PassContext& context) {
  const Target& target = context.options.target;
  Diagnostics refusals;
  if (!target.has_state)
    for (const State& state : shard.states) refusals.push_back(state_refusal(target, shard, state));
  for (OpId id : op_ids(shard)) {
    const TargetRule* rule = broken_rule(target, shard, id);
    if (!rule) continue;
    Diagnostics& where = rule->severity == Severity::error ? refusals : context.notes;
    where.push_back(rule_finding(target, *rule, shard, shard.ops[id]));
  }
  if (!refusals.empty()) return fail(std::move(refusals));
  Shard placed = shard;
  placed.form = Form::placed;
  return placed;
}

}  // namespace moec
