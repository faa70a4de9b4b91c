// moec prepack: writes the most used experts into one file that fills the expert slots when a run
// starts.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/residency/prepack_experts.h"

namespace moec {
namespace {

struct PrepackFlags {
  PrepackOptions options;
  bool json = false;
};

Status prepack(const PrepackFlags& flags) {
  MOEC_TRY(require_export(flags.options.exported));
  PrepackOptions options = flags.options;
  // run_prepack() owns the StopSignals that record the signal.
  options.stop = [] { return StopSignals::caught() != 0; };
  Progress progress("prepack", false);
  options.progress = progress.callback();
  MOEC_ASSIGN(const Prepacked prepacked, prepack_experts(options));
  progress.finish();
  if (flags.json)
    print_json(prepacked_json(prepacked));
  else
    print_out("{}", prepacked_text(prepacked));
  return {};
}

int run_prepack(const PrepackFlags& flags) {
  const StopSignals signals;
  const Status status = prepack(flags);
  return status ? kExitFine : report_stopped(status.error(), kPrepackInterrupted, flags.json);
}

}  // namespace

void add_prepack_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "prepack",
      "Write the most used experts into one file that fills the expert slots when a run starts");
  auto flags = std::make_shared<PrepackFlags>();
  PrepackOptions& options = flags->options;
  command->add_option("OUT", options.exported, "An exported folder")->required();
  command
      ->add_option(
          "--profile", options.profiles,
          "A profile.json from moec analyze or moec discover; repeatable: counts are summed")
      // One word per flag. Otherwise, CLI11 would append the positional argument that follows.
      ->allow_extra_args(false)
      ->required();
  command->add_option("--capacity", options.capacity, "Experts per layer, at least 1")
      ->check(whole_from(1))
      ->required();
  command
      ->add_option("--pin-top-k", options.pin_top_k,
                   "Experts per layer to mark as pinned, which runs never evict (default: none)")
      ->check(whole_from(1));
  command->add_option("-o,--out", options.file, "The file to write")->required();
  command->add_flag("--force", options.force, "Replace the file that --out names");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer(
      "Example: moec prepack out/tinymoe --profile out/analysis --capacity 8 --out warm.pack");
  command->callback([flags, &exit_code] { exit_code = run_prepack(*flags); });
}

}  // namespace moec
