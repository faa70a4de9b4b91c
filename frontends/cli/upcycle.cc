// moec upcycle: makes a checkpoint with experts of a dense one.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/upcycle_flags.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/print_upcycle.h"
#include "frontends/cli/print/progress.h"
#include "frontends/jobs/upcycle/upcycle_json.h"

namespace moec {
namespace {

int show(const UpcycleReport& report, double seconds, bool json) {
  if (json) {
    print_json(upcycle_json(report, seconds));
  } else {
    print_upcycle(report, seconds);
    if (!report.passed()) report_failure(shortfalls(report), false);
  }
  return report.passed() ? kExitFine : kExitFellShort;
}

int run_upcycle(const UpcycleFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  if (const Status source = require_checkpoint(flags.options.source); !source)
    return report_failure(source.error(), flags.json);
  auto options = upcycle_options(flags);
  if (!options) return report_failure(options.error(), flags.json);
  const StopSignals signals;
  Progress progress("upcycle", flags.quiet || flags.json);
  options->stop = [] { return StopSignals::caught() != 0; };
  options->progress = [&](uint64_t bytes, uint64_t total, const std::string& file) {
    progress.advance(bytes, total, file);
  };
  const auto report = upcycle_model(*options);
  progress.finish();
  if (!report) return report_stopped(report.error(), kUpcycleInterrupted, flags.json);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return show(*report, seconds.count(), flags.json);
}

}  // namespace

void add_upcycle_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "upcycle", "Make a checkpoint with experts of a dense one, or of one with fewer experts");
  auto flags = std::make_shared<UpcycleFlags>();
  add_upcycle_flags(*command, *flags);
  command->footer(
      "Example: moec upcycle Qwen3-0.6B --out moe --experts 16 --granularity 2 --top-k 4 --verify");
  command->callback([flags, &exit_code] { exit_code = run_upcycle(*flags); });
}

}  // namespace moec
