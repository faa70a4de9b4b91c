// moec split: cuts a GGUF model or an export into packages of nodes.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/split_flags.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/print_split.h"
#include "frontends/cli/print/progress.h"
#include "frontends/jobs/split/export_split_json.h"
#include "frontends/jobs/split/split_export.h"
#include "frontends/jobs/split/split_json.h"
#include "frontends/jobs/split/split_model.h"

namespace moec {
namespace {

// Prints what came of a split that began at `start`.
template <class Report>
int show(const Result<Report>& report, std::chrono::steady_clock::time_point start,
         const SplitFlags& flags) {
  if (!report) return report_stopped(report.error(), kSplitInterrupted, flags.json);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  flags.json ? print_json(split_json(*report, seconds.count()))
             : print_split(*report, seconds.count());
  return kExitFine;
}

int run_split(const SplitFlags& flags) {
  if (const Status given = check_split_flags(flags); !given)
    return report_failure(given.error(), flags.json);
  SplitOptions options = flags.options;
  const StopSignals signals;
  Progress progress("split", flags.quiet || flags.json);
  options.stop = [] { return StopSignals::caught() != 0; };
  options.progress = [&](uint64_t bytes, uint64_t total, const std::string& file) {
    progress.advance(bytes, total, file);
  };
  const auto start = std::chrono::steady_clock::now();
  if (is_export(options.source)) {
    const Result<ExportSplit> split = split_export(options);
    progress.finish();
    return show(split, start, flags);
  }
  const Result<SplitReport> report = split_model(options);
  progress.finish();
  return show(report, start, flags);
}

}  // namespace

void add_split_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "split", "Cut a GGUF model or an export into packages of nodes that share its trunk");
  auto flags = std::make_shared<SplitFlags>();
  add_split_flags(*command, *flags);
  command->footer("Example: moec split model.gguf --groups 4 --out nodes");
  command->callback([flags, &exit_code] { exit_code = run_split(*flags); });
}

}  // namespace moec
