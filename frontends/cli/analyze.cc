// moec analyze: measures on a text how a model uses its experts.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/analyze_flags.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/analyze/analysis_json.h"
#include "frontends/jobs/analyze/analysis_table.h"
#include "frontends/jobs/analyze/analyze_model.h"
#include "frontends/jobs/analyze/tabulate_model.h"
#include "frontends/jobs/analyze/tabulated_json.h"
#include "frontends/measure/prompt_suite.h"
#include "ir/base/worst_rows.h"

namespace moec {
namespace {

// With --table, the analysis is optional, because a dense model has no experts to count.
int run_table(const AnalyzeOptions& options, Progress& progress, const AnalyzeFlags& flags) {
  const auto tabulated = tabulate_model(options);
  progress.finish();
  if (!tabulated) return report_stopped(tabulated.error(), kAnalyzeInterrupted, flags.json);
  if (flags.json) {
    print_json(tabulated_json(*tabulated, options.folder));
    return kExitFine;
  }
  print_notes(tabulated->notes, flags.quiet);
  // The analysis is absent for a dense model, and without a text or imatrix.
  if (tabulated->analysis) print_out("{}\n", analysis_table(*tabulated->analysis, kTableRows));
  print_out("{}results in {}\n", table_text(tabulated->table), options.folder);
  return kExitFine;
}

int run_analyze(const AnalyzeFlags& flags) {
  auto options = analyze_options(flags);
  if (!options) return report_failure(options.error(), flags.json);
  const StopSignals signals;
  Progress progress("analyze", flags.quiet, options->exported ? "tokens" : "bytes");
  options->stop = [] { return StopSignals::caught() != 0; };
  options->progress = progress.callback();
  // Both kinds of runs use the callbacks above.
  if (options->table) return run_table(*options, progress, flags);
  const auto analysis = analyze_model(*options);
  progress.finish();
  if (!analysis) return report_stopped(analysis.error(), kAnalyzeInterrupted, flags.json);
  if (flags.json) {
    print_json(analysis_json(*analysis, options->folder));
    return kExitFine;
  }
  print_notes(analysis->notes, flags.quiet);
  print_out("{}results in {}\n", analysis_table(*analysis, kOnlyTableRows), options->folder);
  return kExitFine;
}

// CLI::Success ends the parsing before required arguments are checked.
void print_prompts() {
  print_out("{}", default_suite_text());
  throw CLI::Success();
}

}  // namespace

void add_analyze_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "analyze", "Measure how a model's routers use its experts on a text, layer by layer");
  auto flags = std::make_shared<AnalyzeFlags>();
  add_analyze_flags(*command, *flags);
  // A callback and not a bound flag, because the flag must work without SOURCE and --out.
  command->add_flag_callback("--print-prompts", print_prompts,
                             "Print the prompts of --prompts default as JSON lines and exit");
  command->footer("Example: moec analyze models/tinymoe --prompts default --out out/analysis");
  command->callback([flags, &exit_code] { exit_code = run_analyze(*flags); });
}

}  // namespace moec
