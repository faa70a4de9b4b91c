// Which experts of a profile are worth a slot that they never leave.
#pragma once

#include <vector>

#include "backends/residency/expert_policy.h"
#include "ir/experts/expert_profile.h"

namespace moec {

// Of each layer the `most` experts that most tokens chose, of equals the lower ones; none that no
// token chose.
std::vector<ExpertId> most_chosen(const ExpertProfile& profile, int64_t most);

// Adds what the tokens of another text chose to `sum`, a profile of the same layers and experts:
// tokens and selections alone.
void add_selections(ExpertProfile& sum, const ExpertProfile& more);

}  // namespace moec
