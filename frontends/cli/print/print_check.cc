#include "frontends/cli/print/print_check.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "ir/base/byte_text.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

std::string bytes_text(int64_t bytes) { return binary_bytes(static_cast<double>(bytes)); }

std::string describe(const manifest::Placement& placement) {
  std::string text = fmt::format("{} {}", placement.ops, placement.unit);
  for (const manifest::RuleCount& rule : placement.rules)
    text += fmt::format(" ({} x {})", rule.ops, rule.rule);
  return text;
}

int64_t transitions(const CheckedShard& shard) {
  int64_t count = 0;
  for (const CheckedWidth& width : shard.widths) count += width.placement.transitions;
  return count;
}

void print_shards(const CheckReport& report) {
  print_out("{:<14} {:>6} {:>12} {:>12} {:>8} {:>8} {:>8} {:>8}  {}\n", "shard", "ops", "weights",
            "activations", "% ops", "% MACs", "% bytes", "changes", "predicted placement");
  for (const CheckedShard& shard : report.shards) {
    std::string placement;
    for (const manifest::Placement& unit : shard.placement)
      placement += (placement.empty() ? "" : ", ") + describe(unit);
    const Coverage& coverage = shard.coverage;
    print_out("{:<14} {:>6} {:>12} {:>12} {:>8.1f} {:>8.1f} {:>8.1f} {:>8}  {}\n", shard.name,
              shard.ops, bytes_text(shard.weight_bytes), bytes_text(shard.peak_activation_bytes),
              coverage.ops.percent(), coverage.macs.percent(), coverage.weight_bytes.percent(),
              transitions(shard), placement);
  }
}

void print_ops_elsewhere(const CheckReport& report) {
  for (const CheckedShard& shard : report.shards)
    for (const CheckedWidth& width : shard.widths)
      for (const PlacedOp& op : width.placement.ops)
        if (op.unit != report.target.unit)
          print_out("  {} {} ({}): predicted on {} by rule {}\n", width.file, op.name, op.op,
                    op.unit, op.rule);
}

// One line for each broken rule, with the number of files and ops that break it.
void print_rules(const CheckReport& report) {
  struct Count {
    std::set<std::string_view> files;
    int64_t ops = 0;
  };
  std::map<const TargetRule*, Count> counts;
  for (const RuleFinding& found : report.rules) {
    counts[found.rule].files.insert(found.file);
    counts[found.rule].ops += found.ops;
  }
  for (const TargetRule& rule : report.target.rules) {
    const auto found = counts.find(&rule);
    if (found == counts.end()) continue;
    print_out("{} [{}] {} files, {} ops: {}\n", severity_name(rule.severity), rule.id,
              found->second.files.size(), found->second.ops, rule.reason);
  }
}

// A rule of the target concerns ops by the hundreds, for one reason, so its first op stands for
// all.
void print_findings(const Diagnostics& findings, bool in_full) {
  const auto most = [](std::string_view code) {
    return code.starts_with("target.") || code == "check.coverage" ? size_t{1} : kShownErrors;
  };
  const Diagnostics shown = in_full ? findings : first_of_each_code(findings, most);
  if (!shown.empty()) print_out("{}\n", render(shown));
  if (shown.size() < findings.size()) print_out("--ops lists all {} findings\n", findings.size());
}

int64_t total_weight_bytes(const CheckReport& report) {
  int64_t bytes = 0;
  for (const CheckedShard& shard : report.shards) bytes += shard.weight_bytes;
  return bytes;
}

ordered_json to_json(const Coverage& coverage) {
  return {{"ops", coverage.ops.percent()},
          {"macs", coverage.macs.percent()},
          {"weight_bytes", coverage.weight_bytes.percent()}};
}

ordered_json to_json(const PlacedOp& op) {
  ordered_json json = {{"op", op.name}, {"kind", op.op}, {"unit", op.unit}};
  if (!op.rule.empty()) json["rule"] = op.rule;
  json["macs"] = op.macs;
  json["weight_bytes"] = op.weight_bytes;
  return json;
}

ordered_json to_json(const CheckedWidth& width, bool with_ops) {
  ordered_json json = {{"tokens", width.tokens},
                       {"file", width.file},
                       {"predicted_coverage", to_json(width.placement.coverage)},
                       {"transitions", width.placement.transitions}};
  if (!with_ops) return json;
  json["predicted_units"] = ordered_json::array();
  for (const PlacedOp& op : width.placement.ops) json["predicted_units"].push_back(to_json(op));
  return json;
}

// The target's limits on the weight bytes of a shard of this kind, and whether it keeps them.
ordered_json byte_limits(const CheckReport& report, const CheckedShard& shard) {
  auto limits = ordered_json::array();
  for (const TargetRule& rule : report.target.rules) {
    const bool above = rule.condition == RuleCondition::weight_bytes_above;
    if (!above && rule.condition != RuleCondition::weight_bytes_below) continue;
    if (!concerns(rule, shard.kind)) continue;
    limits.push_back(
        {{"rule", rule.id},
         {above ? "most" : "least", rule.limit},
         {"kept", above ? shard.weight_bytes <= rule.limit : shard.weight_bytes >= rule.limit}});
  }
  return limits;
}

ordered_json to_json(const CheckReport& report, const CheckedShard& shard, bool with_ops) {
  auto placement = ordered_json::array();
  for (const manifest::Placement& unit : shard.placement) {
    auto rules = ordered_json::object();
    for (const manifest::RuleCount& rule : unit.rules) rules[rule.rule] = rule.ops;
    placement.push_back({{"unit", unit.unit}, {"ops", unit.ops}, {"rules", rules}});
  }
  auto widths = ordered_json::array();
  for (const CheckedWidth& width : shard.widths) widths.push_back(to_json(width, with_ops));
  return {{"shard", shard.name},
          {"ops", shard.ops},
          {"weight_bytes", shard.weight_bytes},
          {"byte_limits", byte_limits(report, shard)},
          {"peak_activation_bytes", shard.peak_activation_bytes},
          {"predicted_coverage", to_json(shard.coverage)},
          {"predicted_placement", placement},
          {"widths", widths}};
}

ordered_json to_json(const RuleFinding& found) {
  return {{"rule", found.rule->id}, {"severity", severity_name(found.rule->severity)},
          {"shard", found.shard},   {"file", found.file},
          {"op", found.op},         {"ops", found.ops},
          {"what", found.what}};
}

}  // namespace

void print_check(const CheckReport& report, bool with_ops) {
  print_shards(report);
  if (with_ops) print_ops_elsewhere(report);
  const manifest::Build& build = report.manifest.build;
  print_out("{} shards, {} of weights, routing {} ({})\n", report.shards.size(),
            bytes_text(total_weight_bytes(report)), build.routing,
            build.exact ? "exact" : "INEXACT");
  const Coverage& coverage = report.coverage;
  print_out(
      "predicted on {}: {:.1f} % of compute ops, {:.1f} % of MACs, {:.1f} % of weight bytes\n",
      report.target.unit, coverage.ops.percent(), coverage.macs.percent(),
      coverage.weight_bytes.percent());
  print_rules(report);
  print_findings(report.findings, with_ops);
  print_out("{}\n", has_error(report.findings) ? "FELL SHORT" : "PASSED");
}

void print_check_json(const CheckReport& report, bool with_ops) {
  auto shards = ordered_json::array();
  for (const CheckedShard& shard : report.shards)
    shards.push_back(to_json(report, shard, with_ops));
  auto rules = ordered_json::array();
  for (const RuleFinding& found : report.rules) rules.push_back(to_json(found));
  const ordered_json json = {{"target", report.target.name},
                             {"unit", report.target.unit},
                             {"exact_routing", report.manifest.build.exact},
                             {"min_coverage", report.min_coverage},
                             {"predicted_coverage", to_json(report.coverage)},
                             {"shards", shards},
                             {"rules", rules}};
  with_ops ? print_json_in_full(!has_error(report.findings), json, report.findings)
           : print_json(!has_error(report.findings), json, report.findings);
}

void print_rules_json(const std::vector<ExplainedRule>& rules) {
  auto list = ordered_json::array();
  for (const auto& [target, rule] : rules) {
    ordered_json entry = {{"target", target},
                          {"rule", rule.id},
                          {"severity", severity_name(rule.severity)},
                          {"reason", rule.reason},
                          {"condition", enum_name(rule.condition)}};
    if (rule.limit > 0) entry["limit"] = rule.limit;
    entry["chips"] = rule.chips;
    if (!rule.unit.empty()) entry["unit"] = rule.unit;
    entry["confidence"] = rule.confidence;
    entry["source"] = rule.source;
    list.push_back(std::move(entry));
  }
  print_json(true, {{"rules", list}});
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
