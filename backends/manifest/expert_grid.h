// The experts of an export, from which masks take some.
#pragma once

#include "backends/manifest/manifest.h"
#include "ir/plan/expert_sets.h"

namespace moec {

// No layers where the model has no experts.
ExpertGrid expert_grid(const Manifest& manifest);

// The mask that the graphs of the export have. Errors: those of parse_expert_sets().
Result<ExpertSets> expert_mask_of(const Manifest& manifest);

}  // namespace moec
