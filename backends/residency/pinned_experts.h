// Selects the experts of a profile to pin in slots.
#pragma once

#include <vector>

#include "backends/residency/expert_policy.h"
#include "ir/experts/expert_profile.h"

namespace moec {

// Returns, per layer, the `most` experts chosen by the most tokens; ties go to the lower expert.
// Skips experts that no token chose.
std::vector<ExpertId> most_chosen(const ExpertProfile& profile, int64_t most);

// Adds the tokens and selections of `more` to `sum`, a profile of the same layers and experts.
// Ignores the other counts.
void add_selections(ExpertProfile& sum, const ExpertProfile& more);

}  // namespace moec
