// Checks the options of a plan.
#pragma once

#include "ir/model/plan.h"

namespace moec {

// Errors: plan.options, plan.context.
Status check_build_options(const ModelConfig& model, const BuildOptions& options);

}  // namespace moec
