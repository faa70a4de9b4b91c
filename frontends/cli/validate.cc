// moec validate: compares what the emitted files compute with golden results.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/engine_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/session_flags.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/print_validation.h"
#include "frontends/jobs/validate/record_validation.h"
#include "frontends/jobs/validate/validate_model.h"
#include "frontends/jobs/validate/validation_json.h"

namespace moec {
namespace {

struct ValidateFlags {
  std::string folder, golden, thresholds;
  SessionFlags session;
  EngineFlags engine;
  bool json = false, record = false;
};

Status check_paths(const ValidateFlags& flags) {
  MOEC_TRY(require_export(flags.folder));
  return require_golden(flags.golden);
}

Result<SessionOptions> options_of(const ValidateFlags& flags) {
  MOEC_ASSIGN(SessionOptions options, session_options(flags.session));
  MOEC_ASSIGN(options.engine, open_engine(flags.engine));
  if (flags.record && options.engine)
    return fail("engine.option",
                fmt::format("--record records what the reference executor computes, not engine {}",
                            options.engine->traits().name),
                "leave out --record or --engine");
  return options;
}

Result<ValidationReport> validate(const ValidateFlags& flags) {
  MOEC_TRY(check_paths(flags));
  MOEC_ASSIGN(const SessionOptions options, options_of(flags));
  MOEC_ASSIGN(const Golden golden, Golden::open(flags.golden));
  ThresholdTable thresholds = ThresholdTable::builtin();
  if (!flags.thresholds.empty()) {
    MOEC_ASSIGN(thresholds, ThresholdTable::read(flags.thresholds));
  }
  MOEC_ASSIGN(ValidationReport report, validate_model(flags.folder, golden, options, thresholds));
  if (flags.record) MOEC_TRY(record_validation(report, flags.folder));
  return report;
}

int run_validate(const ValidateFlags& flags) {
  const auto report = validate(flags);
  if (!report) return report_failure(report.error(), flags.json);
  if (!flags.json) print_notes(report->notes);
  flags.json ? print_json(validation_json(*report)) : print_validation(*report);
  return report->passed ? kExitFine : kExitFellShort;
}

}  // namespace

void add_validate_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "validate", "Run the emitted files and compare the results with golden ones");
  auto flags = std::make_shared<ValidateFlags>();
  command->add_option("OUT", flags->folder, "An exported folder")->required();
  command
      ->add_option("--golden", flags->golden,
                   "Folder of golden results, made by scripts/make_golden.py")
      ->required();
  command->add_option("--thresholds", flags->thresholds,
                      "A file of thresholds by bits, with the fields of "
                      "frontends/jobs/validate/thresholds.json (default: that file)");
  add_session_flags(*command, flags->session);
  add_engine_flags(*command, flags->engine);
  add_mask_flag(*command, flags->session.expert_mask);
  add_form_flags(*command, flags->session.top_k);
  command->add_flag("--record", flags->record, "Record the results in the manifest of the export");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer("Example: moec validate out/tinymoe --golden tests/golden/tinymoe");
  command->callback([flags, &exit_code] { exit_code = run_validate(*flags); });
}

}  // namespace moec
