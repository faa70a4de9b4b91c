#include "frontends/cli/flags/plan_flags.h"

#include <CLI/CLI.hpp>

#include "frontends/cli/flags/source_flag.h"
#include "frontends/export/options/resolve_options.h"

namespace moec {

void add_plan_flags(CLI::App& command, OptionUsers users, PlanFlags& flags) {
  add_source(command, "SOURCE", flags.source,
             "Checkpoint folder, config.json, or the name of a published model");
  command
      .add_option("--calibration", flags.calibration,
                  "Folder written by moec calibrate --sensitivity, from which --weights auto:BITS "
                  "chooses bit widths")
      // Replaces the row of --calibration, which is for moec export and has another effect.
      ->group("Weights");
  add_option_flags(command, users, flags.given);
  // --widths changes a plan only through check_ane_book().
  command.get_option("--widths")->needs("--compat");
}

Result<PlanSourceOptions> plan_options(const PlanFlags& flags) {
  MOEC_ASSIGN(ExportOptions resolved, resolve_for_one(flags.given));
  CompileOptions& compile = resolved.compile;
  PlanSourceOptions options;
  options.source = flags.source;
  options.family = resolved.source.family;
  options.calibration = flags.calibration;
  // The ane-book runtimes need one package per shard. A plan has no files, so the condition follows
  // from the flags.
  if (resolved.output.compat == Compat::ane_book)
    options.ane_book = AneBookForm{compile.build.tokens.size() == 1 ||
                                   compile.coreml.packaging == WidthPackaging::range};
  options.genai_pipeline = resolved.output.compat == Compat::genai;
  options.request = {compile.build, compile.cuts, compile.kv, compile.mla};
  options.passes = std::move(compile.passes);
  options.run = std::move(compile.run);
  options.devices = std::move(compile.devices);
  return options;
}

}  // namespace moec
