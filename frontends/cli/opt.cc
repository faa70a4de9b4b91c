// moec opt: runs passes over a shard in text form.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/option_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/export/options/resolve_options.h"
#include "frontends/jobs/opt/optimise.h"
#include "ir/text/text.h"

namespace moec {
namespace {

struct OptFlags {
  std::string file, passes;
  bool list = false, timing = false, json = false;
  GivenOptions given;
};

void list_passes(bool json) {
  if (json) return print_json(passes_json());
  for (const Pass& pass : all_passes())
    print_out("{:<24} {:>8} -> {:<8} {}\n", pass.name, form_name(pass.from), form_name(pass.to),
              pass.summary);
}

Result<Optimised> optimise_file(const OptFlags& flags) {
  // Flags come first, so that their errors are reported before those of the file.
  MOEC_ASSIGN(const ExportOptions options, resolve_for_one(flags.given));
  MOEC_TRY(require_ir(flags.file));
  MOEC_ASSIGN(const OptInput input,
              read_opt_input(flags.file, options.compile.passes, [&](const std::string& findings) {
                if (!flags.json) say("{}", findings);
              }));
  return optimise(input, flags.passes, options.compile.run);
}

void print_optimised(const Optimised& optimised, bool timing) {
  const auto& [result, notes] = optimised;
  print_notes(notes);
  if (timing)
    for (const PassReport& report : result.passes)
      // To stderr, because stdout has the resulting shard.
      say("{:<24} {:9.3f} ms  {:>5} -> {:>5} ops{}\n", report.pass, report.seconds * 1e3,
          report.ops_before, report.ops_after, report.changed ? "" : "  (unchanged)");
  print_out("{}", print(result.shard));
}

int run_opt(const OptFlags& flags) {
  const Result<Optimised> optimised = optimise_file(flags);
  if (!optimised) return report_failure(optimised.error(), flags.json);
  flags.json ? print_json(optimised_json(*optimised)) : print_optimised(*optimised, flags.timing);
  return kExitFine;
}

}  // namespace

void add_opt_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("opt", "Run passes over a shard in text form and print the result");
  auto flags = std::make_shared<OptFlags>();
  command->add_option("FILE", flags->file, "A shard in text form, an .ir test or a reproducer");
  command->add_option("--passes", flags->passes,
                      "Passes to run, separated by commas or spaces (default: those in the file's "
                      "run line, else the whole pipeline)");
  command->add_flag("--list-passes", flags->list, "List all passes and exit");
  command->add_flag("--timing", flags->timing,
                    "Print the time of each pass and the number of ops before and after it");
  command->add_flag("--json", flags->json,
                    "Print the result as JSON, with the times and op counts of the passes");
  add_option_flags(*command, OptionUsers::passes, flags->given);
  command->footer(
      "Example: moec opt tests/passes/unroll_experts.ir --passes unroll_experts,lower_gated_mlp");
  command->callback([flags, &exit_code] {
    if (flags->list) return list_passes(flags->json);
    // CLI11 cannot require FILE, because --list-passes runs without it.
    if (flags->file.empty()) throw CLI::RequiredError("FILE");
    exit_code = run_opt(*flags);
  });
}

}  // namespace moec
