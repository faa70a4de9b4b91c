// The flags that say which model is planned, and as what export. Shared by plan and place.
#pragma once

#include <string>

#include "frontends/cli/flags/option_flags.h"
#include "frontends/jobs/plan/plan_source.h"

namespace moec {

struct PlanFlags {
  std::string source, calibration;
  GivenOptions given;
};

// SOURCE is not required. `users` says which of the two commands.
void add_plan_flags(CLI::App& command, OptionUsers users, PlanFlags& flags);

// Without memory. Reads no file of the model. Errors: those of resolve_for_one().
Result<PlanSourceOptions> plan_options(const PlanFlags& flags);

}  // namespace moec
