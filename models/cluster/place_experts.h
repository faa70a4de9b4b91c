// Chooses the experts of each cluster node per layer, from a profile of their use. A node computes
// with its own experts only. Experts that tokens choose together should share a node, and experts
// that nearly every text needs should be on every node.
//
//   packed      replicates the most used experts on all nodes while spare slots last; assigns the
//               others by co-selection, greedily and then by improving swaps.
//               Layers are matched by the text categories that chose a node's experts.
//   balanced    copies experts by load to balance the nodes: EPLB (balance_experts.h)
//   contiguous  ranges of consecutive experts; needs no profile
#pragma once

#include <cstdint>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/experts/expert_groups.h"
#include "ir/experts/expert_profile.h"

namespace moec {

enum class PlacePolicy : uint8_t { packed, balanced, contiguous };
constexpr auto enum_names(PlacePolicy) {
  return name_table<PlacePolicy>({"packed", "balanced", "contiguous"});
}

// Importance of each expert in its layer: Σ routing weight · |output| over the expert's tokens.
// Falls back to Σ routing weight, then to the number of tokens, if the profile lacks the data.
std::vector<double> expert_importance(const LayerProfile& layer);

// Returns one group per element of `slots`, the group's number of experts per layer. Groups are
// named node0, node1, … Each expert is in at least one group. Each group has the same number of
// experts in every layer and in every router group (ExpertGrid::groups). With contiguous, `profile`
// may be null. Errors: place.slots (slots above the number of experts, below top-k, not a multiple
// of the router's groups, or in total fewer than the experts). place.profile (the policy needs a
// profile), place.balanced (nodes of different sizes). Also the errors of check_profile().
Result<std::vector<ExpertGroup>> place_experts(const ExpertProfile* profile, const ExpertGrid& grid,
                                               PlacePolicy policy,
                                               const std::vector<int64_t>& slots);

// The share of a layer's routing mass on a set of its experts; 1 if the layer has no mass. Uses
// selections if the profile has no masses.
double kept_share(const LayerProfile& layer, const ExpertSets& sets);

}  // namespace moec
