#include "frontends/cli/print/print_calibration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "ir/base/byte_text.h"

namespace moec {
namespace {

void print_layer(const CalibratedLayer& layer) {
  std::vector<int64_t> tokens = tokens_of_experts(layer);
  if (tokens.empty()) return;
  const std::vector<size_t> none = experts_without_tokens(tokens);
  std::sort(tokens.begin(), tokens.end());
  print_out("L{:02}  {:>4} experts  {:>8} {:>8} {:>8}  {}\n", layer.layer, tokens.size(),
            tokens.front(), tokens[tokens.size() / 2], tokens.back(),
            none.empty() ? "-" : fmt::format("{}", fmt::join(none, " ")));
}

}  // namespace

void print_calibration(const FinishedCalibration& finished) {
  const CalibrationReport& report = finished.report;
  print_notes(report.notes);
  const std::vector<CalibratedLayer>& layers = report.index.layers;
  if (std::any_of(layers.begin(), layers.end(),
                  [](const CalibratedLayer& layer) { return !tokens_of_experts(layer).empty(); }))
    print_out("tokens of the experts:  fewest   median     most  never chosen\n");
  for (const CalibratedLayer& layer : report.index.layers) print_layer(layer);
  print_out(
      "calibrated with {} tokens in windows of {} ({} tokens behind them are not used), {:.1f} s\n",
      report.index.tokens, report.index.window, report.unused_tokens, finished.seconds);
  if (report.resumed_layers > 0)
    print_out("{} layers were kept from an earlier run\n", report.resumed_layers);
  print_out("{} in {}\n", binary_bytes(static_cast<double>(report.bytes)), finished.folder);
}

}  // namespace moec
