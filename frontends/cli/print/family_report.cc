#include "frontends/cli/print/family_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "frontends/cli/print/findings.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

constexpr size_t kShownOfACode = 10;

std::string origin_of(const ConceptReading& reading) {
  if (!reading.key.empty()) return "key " + reading.key;
  return reading.expression.empty() ? "default" : "default " + reading.expression;
}

void print_axes(const FamilyAxes& axes) {
  fmt::print("axes\n");
  for_each_axis(axes, [](std::string_view name, const auto& value) {
    fmt::print("  {:<18} {}\n", name, enum_name(value));
  });
}

void print_config(const HfConfig& config) {
  fmt::print("concepts\n");
  for (const ConceptReading& reading : config.concepts)
    fmt::print("  {:<18} {:<18} {}\n", reading.name, reading.value, origin_of(reading));
  if (!config.other_keys.empty()) fmt::print("other keys\n");
  for (const KeyReading& key : config.other_keys)
    fmt::print("  {:<18} {:<18} {}\n", key.key, key.value, key.use);
}

void print_tensors(const FamilyReport& report) {
  fmt::print("tensors{}\n", report.has_checkpoint ? "" : " that a checkpoint must have");
  for (const RoleAccount& role : report.tensors.roles) {
    const std::string count = report.has_checkpoint
                                  ? fmt::format("{} of {}", role.found, role.needed)
                                  : fmt::format("{}", role.needed);
    fmt::print("  {:<18} {:>10} {:<14} {}\n", role.role, count, to_string(role.dims), role.name);
  }
  for (const auto& [pattern, count] : report.tensors.ignored)
    fmt::print("  {:<18} {:>10} {:<14} {}\n", "ignored", count, "", pattern);
}

void print_findings(const Diagnostics& findings) {
  std::map<std::string, size_t> seen;
  for (const Diagnostic& finding : findings)
    if (++seen[finding.code] <= kShownOfACode) fmt::print("{}\n", render(finding));
  for (const auto& [code, count] : seen)
    if (count > kShownOfACode) fmt::print("… and {} more [{}]\n", count - kShownOfACode, code);
}

ordered_json concepts_json(const HfConfig& config) {
  ordered_json concepts = ordered_json::object();
  for (const ConceptReading& reading : config.concepts) {
    ordered_json& item = concepts[reading.name];
    item["value"] = reading.value;
    item["from"] = reading.key.empty() ? "default" : "config";
    if (!reading.key.empty()) item["key"] = reading.key;
    if (!reading.expression.empty()) item["expression"] = reading.expression;
  }
  return concepts;
}

ordered_json roles_json(const FamilyReport& report) {
  auto roles = ordered_json::array();
  for (const RoleAccount& role : report.tensors.roles) {
    roles.push_back(
        {{"role", role.role}, {"name", role.name}, {"shape", role.dims}, {"needed", role.needed}});
    if (report.has_checkpoint) roles.back()["found"] = role.found;
  }
  return roles;
}

}  // namespace

void print_family_report(const FamilyReport& report) {
  const Family& family = *report.config.family;
  fmt::print("{}: {}\n", family.model_type, family.summary);
  print_axes(family.axes);
  print_config(report.config);
  if (!report.config_errors.empty()) return;
  print_tensors(report);
  if (!report.has_checkpoint) return;
  print_findings(report.tensors.findings);
  fmt::print("{}\n", report.ok() ? "every tensor of the checkpoint is accounted for"
                                 : "the descriptor does not match the checkpoint");
}

ordered_json family_report_json(const FamilyReport& report) {
  const Family& family = *report.config.family;
  ordered_json axes = ordered_json::object(), keys = ordered_json::object();
  for_each_axis(family.axes,
                [&](const char* name, const auto& value) { axes[name] = enum_name(value); });
  for (const KeyReading& key : report.config.other_keys)
    keys[key.key] = {{"value", key.value}, {"use", key.use}};
  ordered_json json = {{"ok", report.ok()},
                       {"family", family.model_type},
                       {"summary", family.summary},
                       {"axes", axes},
                       {"concepts", concepts_json(report.config)},
                       {"other_keys", keys},
                       {"roles", roles_json(report)}};
  if (!report.config_errors.empty()) {
    json["diagnostics"] = to_json(report.config_errors);
  } else if (report.has_checkpoint) {
    json["ignored"] = report.tensors.ignored;
    json["diagnostics"] = to_json(report.tensors.findings);
  }
  return json;
}

}  // namespace moec
