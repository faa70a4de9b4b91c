#include "frontends/jobs/family/check_family.h"

#include <nlohmann/json.hpp>

#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/hf/quant_states.h"
#include "frontends/sources/open_source.h"
#include "ir/base/report_json.h"

namespace moec {

Result<FamilyReport> check_family(const Family& family, const std::string& config,
                                  const std::string& checkpoint, TensorsEqual& same) {
  MOEC_TRY(refuse_gguf(config));
  MOEC_TRY(refuse_gguf(checkpoint));
  // Without `config`, reads the checkpoint's config. Both are read as `family`.
  MOEC_ASSIGN(ExplainedConfig explained,
              explain_config_of(config.empty() ? checkpoint : config, &family));
  FamilyReport report{std::move(explained.config), std::move(explained.errors), {}};
  // Roles and shapes depend on the config, so tensors cannot be checked after its errors.
  if (!report.config_errors.empty()) return report;
  FolderWeights weights;
  report.has_checkpoint = !checkpoint.empty();
  if (report.has_checkpoint) {
    MOEC_ASSIGN(weights, read_folder_weights(checkpoint));
    // Names must be resolved before the tensors are counted.
    resolve_names(*report.config.family, weights, report.config.model);
    MOEC_TRY(untie_own_head(report.config.model, weights.table, same, report.config.warnings));
    MOEC_TRY(read_quant_states(report.config.model, weights));
  }
  report.tensors = account_for_tensors(report.config, weights);
  return report;
}

namespace {

using nlohmann::ordered_json;

ordered_json concepts_json(const HfConfig& config) {
  ordered_json concepts = ordered_json::object();
  for (const ConceptReading& reading : config.concepts) {
    ordered_json& item = concepts[reading.name];
    item["value"] = reading.value;
    // A concept without a key has its default value.
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
    // Without a checkpoint, `found` would be false for every role.
    if (report.has_checkpoint) roles.back()["found"] = role.found;
  }
  return roles;
}

// Without a checkpoint, ignores the findings about tensors, because all tensors would be missing.
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
