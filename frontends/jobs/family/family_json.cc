#include "frontends/jobs/family/family_json.h"

#include <nlohmann/json.hpp>

#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

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

// Without a checkpoint, all tensors are missing.
Diagnostics findings_of(const FamilyReport& report) {
  if (!report.config_errors.empty()) return report.config_errors;
  return report.has_checkpoint ? report.tensors.findings : Diagnostics();
}

}  // namespace

ordered_json family_json(const FamilyReport& report) {
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
  return report_json(report.ok(), json, findings_of(report));
}

}  // namespace moec
