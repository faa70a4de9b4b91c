// The flags for the model to plan and for the options of its export. Shared by plan and place.
#pragma once

#include <string>

#include "frontends/cli/flags/option_flags.h"
#include "frontends/jobs/plan/plan_source.h"

namespace moec {

struct PlanFlags {
  std::string source, calibration;
  GivenOptions given;
};

// Adds SOURCE as an optional argument. `users` selects the flags of plan or of place.
void add_plan_flags(CLI::App& command, OptionUsers users, PlanFlags& flags);

// Converts the flags to options, except for `resident_bytes`. Reads no model files. Errors: those
// of resolve_for_one().
Result<PlanSourceOptions> plan_options(const PlanFlags& flags);

}  // namespace moec
