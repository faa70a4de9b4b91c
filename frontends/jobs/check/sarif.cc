#include "frontends/jobs/check/sarif.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backends/targets/explain_rule.h"
#include "ir/base/json_output.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

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
    results.push_back(
        to_result(found, static_cast<size_t>(found.rule - report.target.rules.data())));
  const ordered_json driver = {{"name", "moec"}, {"version", MOEC_VERSION}, {"rules", rules}};
  ordered_json run = {{"tool", {{"driver", driver}}}, {"results", results}};
  const ordered_json log = {{"version", "2.1.0"}, {"runs", ordered_json::array({std::move(run)})}};
  return json_text(log, 1) + "\n";
}

}  // namespace moec
