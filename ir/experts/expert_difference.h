// Differences of sets of experts.
#pragma once

#include "ir/experts/expert_sets.h"

namespace moec {

// Per-layer difference: the experts of the grid that `a` has and `b` lacks. Only layers with such
// experts.
ExpertSets in_first_only(const ExpertSets& a, const ExpertSets& b, const ExpertGrid& grid);

// Sets without experts in any layer of the grid.
ExpertSets no_experts(const ExpertGrid& grid);

}  // namespace moec
