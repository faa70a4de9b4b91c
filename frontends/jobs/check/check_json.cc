#include "frontends/jobs/check/check_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backends/targets/explain_rule.h"
#include "ir/base/report_json.h"

namespace moec {

namespace {

using nlohmann::ordered_json;

ordered_json predicted_json(const Coverage& coverage) {
  return {{"ops", coverage.ops.percent()},
          {"macs", coverage.macs.percent()},
          {"weight_bytes", coverage.weight_bytes.percent()}};
}

ordered_json undecided_json(const Coverage& coverage) {
  // Only a measurement shows whether these ops run on the unit, so they are separate.
  return {{"ops", coverage.ops.percent_undecided()},
          {"macs", coverage.macs.percent_undecided()},
          {"weight_bytes", coverage.weight_bytes.percent_undecided()}};
}

ordered_json placed_json(const PlacedOp& op) {
  ordered_json json = {{"op", op.name}, {"kind", op.op}, {"unit", op.unit}};
  // An op on the target's unit has no rule.
  if (!op.rule.empty()) json["rule"] = op.rule;
  json["macs"] = op.macs;
  json["weight_bytes"] = op.weight_bytes;
  return json;
}

ordered_json to_json(const CheckedWidth& width, bool with_ops) {
  ordered_json json = {{"tokens", width.tokens},
                       {"file", width.file},
                       {"predicted_coverage", predicted_json(width.placement.coverage)},
                       {"transitions", width.placement.transitions}};
  if (!with_ops) return json;
  json["predicted_units"] = ordered_json::array();
  for (const PlacedOp& op : width.placement.ops) json["predicted_units"].push_back(placed_json(op));
  return json;
}

// The target's limits on weight bytes for this kind of shard; "kept": the shard is within the
// limit.
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
  auto doubts = ordered_json::array();
  for (const TargetRule* rule : shard.doubts) doubts.push_back(rule->id);
  return {{"shard", shard.name},
          {"ops", shard.ops},
          {"weight_bytes", shard.weight_bytes},
          {"byte_limits", byte_limits(report, shard)},
          {"peak_activation_bytes", shard.peak_activation_bytes},
          {"predicted_coverage", predicted_json(shard.coverage)},
          {"undecided_coverage", undecided_json(shard.coverage)},
          {"undecided_by", doubts},
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

static ordered_json held_json(const HeldWeights& held, const Diagnostics& findings) {
  const ordered_json weights = {{"files", held.files},
                                {"tensors", held.tensors},
                                {"bytes", held.bytes},
                                {"moe_layers", held.moe_layers},
                                {"experts", held.experts}};
  return report_json(!has_error(findings), {{"weights", weights}}, findings);
}

ordered_json check_json(const CheckReport& report, bool with_ops) {
  // Formats without graphs have none of the fields below.
  if (report.held) return held_json(*report.held, report.findings);
  auto shards = ordered_json::array();
  for (const CheckedShard& shard : report.shards)
    shards.push_back(to_json(report, shard, with_ops));
  auto rules = ordered_json::array();
  for (const RuleFinding& found : report.rules) rules.push_back(to_json(found));
  ordered_json json = {{"target", report.target.name},
                       {"unit", report.target.unit},
                       {"exact_routing", report.manifest.build.exact},
                       {"expert_mask", report.manifest.build.expert_mask},
                       {"min_coverage", report.min_coverage},
                       {"predicted_coverage", predicted_json(report.coverage)},
                       {"undecided_coverage", undecided_json(report.coverage)},
                       {"shards", shards},
                       {"rules", rules}};
  // Only nodes of a split have the object; its absence marks a whole export.
  if (const auto& node = report.manifest.node)
    json["node"] = {
        {"name", node->name},     {"experts", node->experts},         {"stage", node->stage},
        {"stages", node->stages}, {"first_layer", node->first_layer}, {"layers", node->layers}};
  const bool ok = !has_error(report.findings);
  // The full report keeps all findings, which report_json() may shorten.
  return with_ops ? report_json_in_full(ok, json, report.findings)
                  : report_json(ok, json, report.findings);
}

ordered_json check_json(const SplitCheck& split, bool with_ops) {
  auto nodes = ordered_json::array();
  for (const CheckedNode& node : split.nodes) nodes.push_back(check_json(*node.report, with_ops));
  return report_json(split.passed(), {{"nodes", std::move(nodes)}}, split.findings);
}

ordered_json rules_json(const std::vector<ExplainedRule>& rules) {
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
  return report_json(true, {{"rules", list}});
}

ordered_json weight_forms_json(const std::vector<ExplainedForms>& entries) {
  auto list = ordered_json::array();
  for (const ExplainedForms& entry : entries) {
    const TargetWeightForms& forms = entry.forms;
    list.push_back({{"target", entry.target},
                    {"forms", forms.forms},
                    {"projections", projections_of(forms)},
                    {"taken", forms.severity != Severity::error},
                    {"severity", severity_name(forms.severity)},
                    {"reason", forms.reason},
                    {"confidence", forms.confidence},
                    {"source", forms.source}});
  }
  return report_json(true, {{"weights", list}});
}

namespace {

ordered_json to_json(const PlacedOp& op) {
  // Uses the op's name in the file, by which confirm_on_mac.py finds it; the IR's name differs.
  ordered_json json = {{"name", op.file_name}, {"op", op.op}, {"unit", op.unit}};
  if (!op.rule.empty()) json["rule"] = op.rule;
  return json;
}

}  // namespace

std::string expected_placement(const CheckReport& report) {
  auto graphs = ordered_json::array();
  for (const CheckedShard& shard : report.shards)
    for (const CheckedWidth& width : shard.widths) {
      auto ops = ordered_json::array();
      for (const PlacedOp& op : width.placement.ops) ops.push_back(to_json(op));
      const manifest::Width& of = report.manifest.find_shard(shard.name)->widths[width.index];
      graphs.push_back({{"shard", shard.name},
                        {"tokens", width.tokens},
                        {"digest", of.file.digest},
                        {"ops", std::move(ops)}});
      // A function name is needed only if variants of top-k share a file and token width.
      if (of.top_k) graphs.back()["function"] = of.function;
    }
  const ordered_json json = {{"format", "moec-expected-placement"},
                             {"version", 1},
                             {"target", report.target.name},
                             {"unit", report.target.unit},
                             {"graphs", std::move(graphs)}};
  return json_text(json, 1) + "\n";
}

namespace {

ordered_json text_of(std::string text) { return {{"text", std::move(text)}}; }

// SARIF's levels are none, note, warning and error.
ordered_json to_descriptor(const TargetRule& rule) {
  return {{"id", rule.id},
          {"shortDescription", text_of(rule.reason)},
          {"help", text_of(describe_rule(rule))},
          {"defaultConfiguration", {{"level", severity_name(rule.severity)}}},
          {"properties", {{"confidence", rule.confidence}, {"source", rule.source}}}};
}

ordered_json logical_locations(const RuleFinding& found) {
  auto list = ordered_json::array();
  list.push_back({{"name", found.shard}, {"fullyQualifiedName", found.shard}, {"kind", "module"}});
  if (!found.op.empty())
    list.push_back({{"name", found.op},
                    {"fullyQualifiedName", found.shard + "/" + found.op},
                    {"kind", "function"}});
  return list;
}

ordered_json to_result(const RuleFinding& found, size_t rule_index) {
  const std::string message = found.ops > 1 ? fmt::format("{} ops, of which {} is the first: {}",
                                                          found.ops, found.op, found.what)
                                            : found.what;
  auto locations = ordered_json::array();
  locations.push_back({{"physicalLocation", {{"artifactLocation", {{"uri", found.file}}}}},
                       {"logicalLocations", logical_locations(found)}});
  return {{"ruleId", found.rule->id},
          {"ruleIndex", rule_index},
          {"level", severity_name(found.rule->severity)},
          {"message", text_of(message)},
          {"locations", std::move(locations)}};
}

}  // namespace

std::string to_sarif(const CheckReport& report) {
  auto rules = ordered_json::array(), results = ordered_json::array();
  for (const TargetRule& rule : report.target.rules) rules.push_back(to_descriptor(rule));
  for (const RuleFinding& found : report.rules)
    // `found.rule` points into the target's vector, so the difference is its index in the SARIF
    // rules.
    results.push_back(
        to_result(found, static_cast<size_t>(found.rule - report.target.rules.data())));
  const ordered_json driver = {{"name", "moec"}, {"version", MOEC_VERSION}, {"rules", rules}};
  ordered_json run = {{"tool", {{"driver", driver}}}, {"results", results}};
  const ordered_json log = {{"version", "2.1.0"}, {"runs", ordered_json::array({std::move(run)})}};
  return json_text(log, 1) + "\n";
}

}  // namespace moec
