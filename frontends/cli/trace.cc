// moec trace: writes the experts that each token of a text chooses.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/analyze_flags.h"
#include "frontends/cli/flags/one_of.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/residency/trace_model.h"

namespace moec {
namespace {

struct TraceFlags {
  AnalyzeFlags run;
  std::string file, form;
  bool force = false;
};

Result<TraceReport> trace_named(const TraceFlags& flags) {
  TraceOptions options{.file = flags.file, .force = flags.force, .form = trace_form_of(flags.file)};
  MOEC_ASSIGN(options.run, analyze_options(flags.run));
  // An absent --format is an empty text, which is not a form, so the file name decides.
  if (const auto form = parse_enum<TraceForm>(flags.form)) options.form = *form;
  const StopSignals signals;
  Progress progress("trace", flags.run.quiet, options.run.exported ? "tokens" : "bytes");
  options.run.stop = [] { return StopSignals::caught() != 0; };
  options.run.progress = progress.callback();
  auto report = trace_model(options);
  progress.finish();
  return report;
}

int run_trace(const TraceFlags& flags) {
  const auto report = trace_named(flags);
  // trace_model() runs the analysis of moec analyze, so a stop has the code of the analysis.
  if (!report) return report_stopped(report.error(), kAnalyzeInterrupted, flags.run.json);
  if (flags.run.json) {
    print_json(trace_json(*report));
    return kExitFine;
  }
  print_notes(report->notes, flags.run.quiet);
  print_out("{} tokens in {} layers: {} rows in {} ({})\n", report->tokens, report->layers,
            report->rows, report->file, enum_name(report->form));
  return kExitFine;
}

}  // namespace

void add_trace_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("trace", "Write a trace of the experts that each token of a text chooses");
  auto flags = std::make_shared<TraceFlags>();
  add_measured_source_flags(*command, flags->run);
  command->add_option("-o,--out", flags->file, "File for the trace")->required();
  command->add_flag("--force", flags->force, "Replace the file that --out names");
  command
      ->add_option("--format", flags->form,
                   "csv or binary (default: binary for .moetrace and .bin, else csv)")
      ->check(one_of_enum<TraceForm>());
  command->footer("Example: moec trace out/tinymoe --prompts default --out tinymoe.moetrace");
  command->callback([flags, &exit_code] { exit_code = run_trace(*flags); });
}

}  // namespace moec
