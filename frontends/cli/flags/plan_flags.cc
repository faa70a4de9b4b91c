#include "frontends/cli/flags/plan_flags.h"

#include <CLI/CLI.hpp>

#include "frontends/compile/ane_book_form.h"

namespace moec {
namespace {

Result<PassOptions> plan_passes(const PlanFlags& flags) {
  MOEC_ASSIGN(PassOptions passes, pass_options(flags.passes));
  MOEC_TRY(choose_projection(flags.shards, flags.passes.form, passes.target));
  return passes;
}

Result<PlanRequest> plan_request(const PlanFlags& flags, const PassOptions& passes) {
  PlanRequest request;
  MOEC_ASSIGN(request.build, build_options(flags.shards, passes));
  MOEC_ASSIGN(request.cuts, cut_options(flags.shards, passes.target));
  request.kv = flags.shards.kv;
  request.mla = flags.shards.mla;
  if (!flags.coreml.compat.empty()) cut_for_ane_book(request.cuts);
  return request;
}

}  // namespace

void add_plan_flags(CLI::App& command, PlanFlags& flags) {
  command.add_option("SOURCE", flags.source,
                     "Checkpoint folder, config.json, or the name of a published model");
  command.add_option("--calibration", flags.calibration,
                     "The folder of moec calibrate --sensitivity by which --weights auto:BITS "
                     "chooses bits");
  command.add_option("--family-file", flags.family_file,
                     "Read the config with this family descriptor instead of a built-in one "
                     "(models/families/README.md)");
  add_shard_flags(command, flags.shards);
  add_compat_flags(command, flags.coreml);
  command.get_option("--widths")->needs("--compat");
  add_pass_flags(command, flags.passes);
}

Result<PlanSourceOptions> plan_options(const PlanFlags& flags) {
  PlanSourceOptions options;
  options.source = flags.source;
  if (!flags.family_file.empty()) options.family_file = flags.family_file;
  MOEC_ASSIGN(options.passes, plan_passes(flags));
  MOEC_ASSIGN(options.run, run_options(flags.passes));
  MOEC_ASSIGN(options.request, plan_request(flags, options.passes));
  options.calibration = flags.calibration;
  if (!flags.coreml.compat.empty())
    options.ane_book =
        AneBookForm{options.request.build.tokens.size() == 1 || flags.coreml.widths == "range"};
  return options;
}

}  // namespace moec
