// moec discover: runs a model without its experts to predict the experts that a text uses.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/analyze_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/residency/discover_experts.h"

namespace moec {
namespace {

struct DiscoverFlags {
  AnalyzeFlags run;
  std::string file;
  bool force = false, recall = false;
};

Result<Discovery> discover_named(const DiscoverFlags& flags) {
  // Skipping experts needs them in separate shards, which only an export has.
  MOEC_TRY(require_export(flags.run.options.source));
  DiscoverOptions options{.file = flags.file, .force = flags.force, .recall = flags.recall};
  MOEC_ASSIGN(options.run, analyze_options(flags.run));
  const StopSignals signals;
  Progress progress("discover", flags.run.quiet, "tokens");
  options.run.stop = [] { return StopSignals::caught() != 0; };
  options.run.progress = [&](uint64_t tokens, uint64_t total, const std::string& part) {
    // --recall runs the text a second time, with all experts.
    progress.advance(tokens, options.recall ? 2 * total : total, part);
  };
  auto discovery = discover_experts(options);
  progress.finish();
  return discovery;
}

int run_discover(const DiscoverFlags& flags) {
  const auto discovery = discover_named(flags);
  if (!discovery) return report_stopped(discovery.error(), kAnalyzeInterrupted, flags.run.json);
  if (flags.run.json) {
    print_json(discovery_json(*discovery));
    return kExitFine;
  }
  print_notes(discovery->notes, flags.run.quiet);
  print_out("{}profile in {}\n", discovery_table(*discovery), discovery->file);
  return kExitFine;
}

}  // namespace

void add_discover_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "discover",
      "Predict the experts that a text uses without reading any expert, and write a profile");
  auto flags = std::make_shared<DiscoverFlags>();
  command->add_option("OUT", flags->run.options.source, "An exported folder")->required();
  add_text_run_flags(*command, flags->run);
  command->add_option("-o,--out", flags->file, "The profile to write")->required();
  command->add_flag("--force", flags->force, "Replace the file that --out names");
  command->add_flag(
      "--recall", flags->recall,
      "Also run the whole model and report the share of its experts that was predicted");
  command->footer("Example: moec discover out/tinymoe --prompt \"def f(x):\" --out profile.json");
  command->callback([flags, &exit_code] { exit_code = run_discover(*flags); });
}

}  // namespace moec
