// moec family: checks family descriptors.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/weights/views/equal_tensors.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/family_report.h"
#include "frontends/cli/print/findings.h"
#include "frontends/jobs/family/family_json.h"
#include "frontends/sources/hf/checkpoint.h"

namespace moec {
namespace {

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
    return flags.json ? kExitBadInput : report_failure(report->config_errors, false);
  return report->ok() ? kExitFine : kExitFellShort;
}

void add_check(CLI::App& family, int& exit_code) {
  CLI::App* command = family.add_subcommand(
      "check",
      "Explain how a descriptor resolves against a config, and which tensors of a "
      "checkpoint it accounts for");
  auto flags = std::make_shared<FamilyFlags>();
  command->add_option("FILE", flags->file, "The family descriptor (models/families/README.md)")
      ->required();
  CLI::Option* config = command->add_option(
      "--config", flags->config,
      "A config.json, or a folder that has one (default: that of --checkpoint)");
  CLI::Option* checkpoint = command->add_option(
      "--checkpoint", flags->checkpoint, "A checkpoint folder whose tensors are checked, too");
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

}  // namespace

void add_family_command(CLI::App& app, int& exit_code) {
  CLI::App* family = app.add_subcommand("family", "Check a family descriptor");
  family->require_subcommand(1);
  add_check(*family, exit_code);
}

}  // namespace moec
