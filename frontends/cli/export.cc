// moec export: compiles a checkpoint into a folder of static shards.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/export_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/print_export.h"
#include "frontends/cli/print/progress.h"
#include "frontends/export/export_model.h"

namespace moec {
namespace {

int run_export(const ExportFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  if (const Status source = require_checkpoint(flags.source); !source)
    return report_failure(source.error(), flags.json);
  auto targets = export_options(flags);
  if (!targets) return report_failure(targets.error(), flags.json);
  const StopSignals signals;
  Progress progress("export", flags.quiet || flags.json);
  for (ExportOptions& options : *targets) {
    options.callbacks.stop = [] { return StopSignals::caught() != 0; };
    options.callbacks.progress = [&](uint64_t bytes, uint64_t total, const std::string& part) {
      progress.advance(bytes, total, part);
    };
  }
  auto summaries = export_targets(*targets);
  progress.finish();
  if (!summaries) return report_stopped(summaries.error(), kExportInterrupted, flags.json);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const FinishedExport finished{flags.out, *targets, *summaries, seconds.count()};
  if (flags.json)
    print_json(export_json(finished));
  else
    print_export(finished, flags.quiet);
  return kExitFine;
}

}  // namespace

void add_export_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "export", "Compile a checkpoint into a folder of static shards with a manifest");
  auto flags = std::make_shared<ExportFlags>();
  add_export_flags(*command, *flags);
  command->footer("Example: moec export models/tinymoe --out out/tinymoe --tokens 1,16");
  command->callback([flags, &exit_code] { exit_code = run_export(*flags); });
}

}  // namespace moec
