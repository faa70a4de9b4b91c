// moec family: shows and checks family descriptors.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/weights/views/equal_tensors.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/family/check_family.h"
#include "frontends/sources/hf/checkpoint.h"

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

// Limits the findings per code, because a wrong name template affects every tensor of a role.
void print_findings(const Diagnostics& findings) {
  if (!findings.empty()) print_out("{}\n", render(first_of_each_code(findings, kShownErrors)));
}

// Does not print errors of the config; the caller reports them.
void print_family_report(const FamilyReport& report) {
  const Family& family = *report.config.family;
  print_out("{}: {}\n", family.model_type, family.summary);
  print_axes(family.axes);
  print_config(report.config);
  // Roles and their shapes depend on the config, so they are unknown after an error in it.
  if (!report.config_errors.empty()) return;
  print_tensors(report);
  if (!report.has_checkpoint) return;
  print_findings(report.tensors.findings);
  print_out("{}\n", report.ok() ? "every tensor of the checkpoint is accounted for"
                                : "the descriptor does not match the checkpoint");
}

struct FamilyFlags {
  std::string file, config, checkpoint;
  bool json = false;
};

Status check_paths(const FamilyFlags& flags) {
  MOEC_TRY(require_family_file(flags.file));
  if (!flags.config.empty()) MOEC_TRY(require_model(flags.config));
  return flags.checkpoint.empty() ? Status() : require_checkpoint(flags.checkpoint);
}

int run_family_check(const FamilyFlags& flags) {
  if (const Status paths = check_paths(flags); !paths)
    return report_failure(paths.error(), flags.json);
  const Result<Family> family = read_family_file(flags.file);
  if (!family) return report_failure(family.error(), flags.json);
  const Result<FamilyReport> report =
      check_family(*family, flags.config, flags.checkpoint, equal_tensors);
  if (!report) return report_failure(report.error(), flags.json);
  if (flags.json)
    print_json(family_json(*report));
  else
    print_family_report(*report);
  if (!report->config_errors.empty())
    // The JSON report already contains the errors, and stdout must have one object.
    return flags.json ? kExitBadInput : report_failure(report->config_errors, false);
  return report->ok() ? kExitFine : kExitFellShort;
}

void add_check(CLI::App& family, int& exit_code) {
  CLI::App* command =
      family.add_subcommand("check",
                            "Show how a descriptor resolves against a config, and check that it "
                            "accounts for the tensors of a checkpoint");
  auto flags = std::make_shared<FamilyFlags>();
  command->add_option("FILE", flags->file, "The family descriptor (models/families/README.md)")
      ->required();
  CLI::Option* config = command->add_option(
      "--config", flags->config,
      "A config.json, or a folder that contains one (default: from --checkpoint)");
  CLI::Option* checkpoint = command->add_option(
      "--checkpoint", flags->checkpoint, "A checkpoint folder whose tensors are checked as well");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer(
      "Exit codes: 0 success, 1 tensors are missing, unexpected or unused, 2 the descriptor or the "
      "config cannot be read.\n"
      "Example: moec family check models/families/qwen3_moe.json --checkpoint models/tinymoe");
  command->callback([flags, config, checkpoint, &exit_code] {
    if (config->empty() && checkpoint->empty())
      throw CLI::RequiredError("--config or --checkpoint");
    exit_code = run_family_check(*flags);
  });
}

int run_family_show(const std::string& model_type) {
  const Result<std::string_view> text = family_text(model_type);
  if (!text) return report_failure(text.error(), false);
  print_out("{}", *text);
  return kExitFine;
}

void add_show(CLI::App& family, int& exit_code) {
  CLI::App* command = family.add_subcommand(
      "show", "Print the built-in descriptor of a model type, as a template for your own");
  auto model_type = std::make_shared<std::string>();
  command
      ->add_option("MODEL_TYPE", *model_type, "The \"model_type\" of a config.json, e.g. qwen3_moe")
      ->required();
  command->footer("Example: moec family show qwen3_moe > my_family.json");
  command->callback([model_type, &exit_code] { exit_code = run_family_show(*model_type); });
}

}  // namespace

void add_family_command(CLI::App& app, int& exit_code) {
  CLI::App* family = app.add_subcommand("family", "Show or check a family descriptor");
  // The command alone does nothing.
  family->require_subcommand(1);
  add_show(*family, exit_code);
  add_check(*family, exit_code);
}

}  // namespace moec
