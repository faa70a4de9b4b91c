#include "frontends/cli/print/family_report.h"

#include <fmt/format.h>

#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"

namespace moec {
namespace {

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

}  // namespace moec
