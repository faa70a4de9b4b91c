// moec calibrate: runs a text through a checkpoint and records what its matrices are applied to.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/calibrate_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/print_calibration.h"
#include "frontends/cli/print/progress.h"
#include "frontends/jobs/calibrate/calibrate_model.h"

namespace moec {
namespace {

int run_calibrate(const CalibrateFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  if (const Status source = require_checkpoint(flags.source); !source)
    return report_failure(source.error(), flags.json);
  auto options = calibrate_options(flags);
  if (!options) return report_failure(options.error(), flags.json);
  const StopSignals signals;
  Progress progress("calibrate", flags.quiet || flags.json);
  options->stop = [] { return StopSignals::caught() != 0; };
  options->progress = [&](uint64_t bytes, uint64_t total, const std::string& part) {
    progress.advance(bytes, total, part);
  };
  const auto report = calibrate_model(*options);
  progress.finish();
  if (!report) return report_stopped(report.error(), kCalibrateInterrupted, flags.json);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const FinishedCalibration finished{flags.out, *report, seconds.count()};
  flags.json ? print_json(calibration_json(finished)) : print_calibration(finished);
  return kExitFine;
}

}  // namespace

void add_calibrate_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("calibrate",
                                         "Run a text through a checkpoint and record the inputs of "
                                         "its matrices, for codes of few bits");
  auto flags = std::make_shared<CalibrateFlags>();
  add_calibrate_flags(*command, *flags);
  command->footer("Example: moec calibrate models/tinymoe --text sample.txt --out stats/tinymoe");
  command->callback([flags, &exit_code] { exit_code = run_calibrate(*flags); });
}

}  // namespace moec
