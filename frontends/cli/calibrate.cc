// moec calibrate: runs a text through a checkpoint and records statistics of the inputs of its
// matrices.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/calibrate_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/calibrate/calibrate_model.h"
#include "frontends/jobs/calibrate/calibration_json.h"
#include "ir/base/byte_text.h"
#include "ir/base/parse_number.h"
#include "ir/base/worst_rows.h"

namespace moec {

namespace {

void add_layer(const CalibratedLayer& layer, std::vector<RankedRow>& rows) {
  std::vector<int64_t> tokens = tokens_of_experts(layer);
  // A dense layer has no experts.
  if (tokens.empty()) return;
  // Before the sort, because the index of a count is the id of its expert.
  const std::vector<size_t> none = experts_without_tokens(tokens);
  std::sort(tokens.begin(), tokens.end());
  rows.push_back({fmt::format("L{:02}  {:>4} experts  {:>8} {:>8} {:>8}  {}\n", layer.layer,
                              tokens.size(), tokens.front(), tokens[tokens.size() / 2],
                              tokens.back(), short_list({none.begin(), none.end()}, " ")),
                  static_cast<double>(none.size()) - static_cast<double>(tokens.front()) * 1e-9});
}

std::string layer_names(const CalibrationIndex& index) {
  std::vector<int64_t> layers;
  for (const CalibratedLayer& layer : index.layers)
    if (layer.layer >= 0) layers.push_back(layer.layer);
  std::string names = layers.empty() ? "" : "layers " + ranges_text(layers);
  if (has_layer(index, -1)) names += names.empty() ? "the head" : " and the head";
  return names.empty() ? "no layers, because the other parts have all" : names;
}

// Prints the minimum, median and maximum tokens per expert of each layer, and its unused experts.
void print_calibration(const FinishedCalibration& finished, const CalibrateFlags& flags) {
  const CalibrationReport& report = finished.report;
  print_notes(report.notes, flags.quiet);
  std::vector<RankedRow> rows;
  for (const CalibratedLayer& layer : report.index.layers) add_layer(layer, rows);
  // A dense model has no rows, so its header is omitted.
  if (!rows.empty()) print_out("tokens per expert:   fewest   median     most  never chosen\n");
  print_out("{}", worst_rows(rows, kOnlyTableRows, "layers with the most experts never chosen"));
  print_out(
      "calibrated with {} tokens in windows of {} ({} trailing tokens are not used), {:.1f} s\n",
      report.index.tokens, report.index.window, report.unused_tokens, finished.seconds);
  if (report.resumed_layers > 0)
    print_out("{} layers were kept from {}\n", report.resumed_layers,
              flags.join ? "parts or an earlier run" : "an earlier run");
  print_out("{} in {}\n", decimal_bytes(report.bytes), finished.folder);
  if (!finished.part) return;
  print_out("part {}/{}: {}\n", finished.part->index, finished.part->count,
            layer_names(report.index));
  print_out("next: the same command with --join instead of --part, after all parts\n");
}

int run_calibrate(const CalibrateFlags& flags) {
  // The reported time includes the checks of the source and the flags.
  const auto start = std::chrono::steady_clock::now();
  if (const Status source = require_checkpoint(flags.source); !source)
    return report_failure(source.error(), flags.json);
  auto options = calibrate_options(flags);
  if (!options) return report_failure(options.error(), flags.json);
  const StopSignals signals;
  Progress progress("calibrate", flags.quiet);
  options->stop = [] { return StopSignals::caught() != 0; };
  // The size is printed before the long run begins, so that a user can stop it in time.
  options->start = [&](uint64_t bytes) {
    if (!flags.quiet && !flags.json)
      say("calibrate: writes up to {} to {}\n", decimal_bytes(bytes), flags.out);
  };
  options->progress = progress.callback();
  const auto report = calibrate_model(*options);
  progress.finish();
  if (!report) return report_stopped(report.error(), kCalibrateInterrupted, flags.json);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const FinishedCalibration finished{flags.out, *report, seconds.count(), options->part};
  flags.json ? print_json(calibration_json(finished)) : print_calibration(finished, flags);
  return kExitFine;
}

}  // namespace

void add_calibrate_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("calibrate",
                                         "Run a text through a checkpoint and record statistics of "
                                         "its matrices' inputs, for quantization");
  auto flags = std::make_shared<CalibrateFlags>();
  add_calibrate_flags(*command, *flags);
  command->footer("Example: moec calibrate models/tinymoe --text sample.txt --out stats/tinymoe");
  command->callback([flags, &exit_code] { exit_code = run_calibrate(*flags); });
}

}  // namespace moec
