#include "frontends/cli/print/family_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

std::string origin_of(const ConceptReading& reading) {
  if (!reading.key.empty()) return "key " + reading.key;
  return reading.expression.empty() ? "default" : "default " + reading.expression;
}

void print_axes(const FamilyAxes& axes) {
  print_out("axes\n");
  for_each_axis(axes, [](std::string_view name, const auto& value) {
    print_out("  {:<18} {}\n", name, enum_name(value));
  });
}

void print_config(const HfConfig& config) {
  print_out("concepts\n");
  for (const ConceptReading& reading : config.concepts)
    print_out("  {:<18} {:<18} {}\n", reading.name, reading.value, origin_of(reading));
  if (!config.other_keys.empty()) print_out("other keys\n");
  for (const KeyReading& key : config.other_keys)
    print_out("  {:<18} {:<18} {}\n", key.key, key.value, key.use);
}

void print_tensors(const FamilyReport& report) {
  print_out("tensors{}\n", report.has_checkpoint ? "" : " that a checkpoint must have");
  for (const RoleAccount& role : report.tensors.roles) {
    const std::string count = report.has_checkpoint
                                  ? fmt::format("{} of {}", role.found, role.needed)
                                  : fmt::format("{}", role.needed);
    print_out("  {:<18} {:>10} {:<14} {}\n", role.role, count, to_string(role.dims), role.name);
  }
  for (const auto& [pattern, count] : report.tensors.ignored)
    print_out("  {:<18} {:>10} {:<14} {}\n", "ignored", count, "", pattern);
}

void print_findings(const Diagnostics& findings) {
  if (!findings.empty()) print_out("{}\n", render(first_of_each_code(findings, kShownErrors)));
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
  print_out("{}: {}\n", family.model_type, family.summary);
  print_axes(family.axes);
  print_config(report.config);
  if (!report.config_errors.empty()) return;
  print_tensors(report);
  if (!report.has_checkpoint) return;
  print_findings(report.tensors.findings);
  print_out("{}\n", report.ok() ? "every tensor of the checkpoint is accounted for"
                                : "the descriptor does not match the checkpoint");
}

// Without a checkpoint, all tensors are missing.
static Diagnostics findings_of(const FamilyReport& report) {
  if (!report.config_errors.empty()) return report.config_errors;
  return report.has_checkpoint ? report.tensors.findings : Diagnostics();
}

void print_family_report_json(const FamilyReport& report) {
  const Family& family = *report.config.family;
  ordered_json axes = ordered_json::object(), keys = ordered_json::object();
  for_each_axis(family.axes,
                [&](const char* name, const auto& value) { axes[name] = enum_name(value); });
  for (const KeyReading& key : report.config.other_keys)
    keys[key.key] = {{"value", key.value}, {"use", key.use}};
  ordered_json json = {{"family", family.model_type},
                       {"summary", family.summary},
                       {"axes", axes},
                       {"concepts", concepts_json(report.config)},
                       {"other_keys", keys},
                       {"roles", roles_json(report)}};
  if (report.config_errors.empty() && report.has_checkpoint)
    json["ignored"] = report.tensors.ignored;
  print_json(report.ok(), json, findings_of(report));
}

}  // namespace moec
