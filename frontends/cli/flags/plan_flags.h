// The flags that say which model is planned, and as what export. Shared by plan and place.
#pragma once

#include <string>

#include "frontends/cli/flags/export_flags.h"
#include "frontends/cli/flags/pass_flags.h"
#include "frontends/cli/flags/shard_flags.h"
#include "frontends/jobs/plan/plan_source.h"

namespace moec {

struct PlanFlags {
  std::string source, family_file, calibration;
  ShardFlags shards;
  CoremlFlags coreml;
  PassFlags passes;
};

// SOURCE is not required.
void add_plan_flags(CLI::App& command, PlanFlags& flags);

// Without devices and memory. Reads no file of the model. Errors: those of pass_options(),
// choose_projection(), run_options(), build_options() and cut_options().
Result<PlanSourceOptions> plan_options(const PlanFlags& flags);

}  // namespace moec
