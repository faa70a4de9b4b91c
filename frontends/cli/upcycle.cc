// moec upcycle: makes a Mixture-of-Experts checkpoint from a dense one.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/upcycle_flags.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/upcycle/upcycle_model.h"
#include "ir/base/byte_text.h"

namespace moec {

namespace {

void print_model(const UpcycleReport& report) {
  const ModelConfig& model = report.plan.result;
  // --layers may leave some layers dense.
  const auto layers = std::count_if(model.layers.begin(), model.layers.end(),
                                    [](const LayerConfig& layer) { return layer.moe; });
  print_out("{}: {} of {} layers with {} experts of {} units, {} per token\n", model.family, layers,
            model.layers.size(), model.moe.experts, model.moe.expert_ff, model.moe.routing.top_k);
  if (report.plan.group > 1)
    print_out("groups of {} experts with equal router rows\n", report.plan.group);
  if (model.moe.shared_ff > 0) print_out("a shared expert of {} units\n", model.moe.shared_ff);
  const PartFactors& factors = report.plan.factors;
  if (factors != PartFactors{})
    print_out("factors: gate {:.6g}, up {:.6g}, down {:.6g}\n", factors.gate, factors.up,
              factors.down);
  print_out("{}\n", to_string(report.plan.exact));
}

void print_comparison(const UpcycleComparison& comparison, double max_error) {
  print_out(
      "verified on {} tokens: maximum relative error {:.3g} (allowed {:.3g}), KL {:.3g}, same "
      "top-1 {:.2f} %, whole groups {:.4f} % of {} choices\n",
      comparison.tokens, comparison.max_error, max_error, comparison.mean_kl, 100 * comparison.top1,
      100 * comparison.whole_rate(), comparison.choices);
}

void print_upcycle(const UpcycleReport& report, double seconds, bool quiet) {
  print_notes(report.plan.notes, quiet);
  print_model(report);
  const std::string bytes = decimal_bytes(report.tensor_bytes);
  if (report.dry_run)
    print_out("{} tensors, {} bytes ({}) would be written\n", report.plan.tensors.size(),
              report.tensor_bytes, bytes);
  else
    print_out("{} tensors, {} bytes ({}) in {}, {:.1f} s\n", report.plan.tensors.size(),
              report.tensor_bytes, bytes, report.out, seconds);
  if (report.comparison) print_comparison(*report.comparison, report.max_error);
}

int show(const UpcycleReport& report, double seconds, const UpcycleFlags& flags) {
  if (flags.json) {
    print_json(upcycle_json(report, seconds));
  } else {
    print_upcycle(report, seconds, flags.quiet);
    if (!report.passed()) report_failure(shortfalls(report), false);
  }
  return report.passed() ? kExitFine : kExitFellShort;
}

int run_upcycle(const UpcycleFlags& flags) {
  // The reported time includes the checks of the source and the flags.
  const auto start = std::chrono::steady_clock::now();
  if (const Status source = require_checkpoint(flags.options.source); !source)
    return report_failure(source.error(), flags.json);
  auto options = upcycle_options(flags);
  if (!options) return report_failure(options.error(), flags.json);
  const StopSignals signals;
  Progress progress("upcycle", flags.quiet);
  options->hooks.stop = [] { return StopSignals::caught() != 0; };
  options->hooks.progress = progress.callback();
  const auto report = upcycle_model(*options);
  progress.finish();
  if (!report) return report_stopped(report.error(), kUpcycle.interrupted(), flags.json);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return show(*report, seconds.count(), flags);
}

}  // namespace

void add_upcycle_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "upcycle",
      "Make a Mixture-of-Experts checkpoint from a dense one, or from one with fewer experts");
  auto flags = std::make_shared<UpcycleFlags>();
  add_upcycle_flags(*command, *flags);
  command->footer(
      "Example: moec upcycle Qwen3-0.6B --out moe --experts 16 --granularity 2 --top-k 4 --verify");
  command->callback([flags, &exit_code] { exit_code = run_upcycle(*flags); });
}

}  // namespace moec
