// Chooses which experts each node of a cluster holds, layer by layer, from a profile of how they
// were used. A node answers with its experts alone, so that what is chosen together belongs
// together, and what nearly every text needs belongs on every node.
//
//   packed      the hottest experts on all nodes, as many as the spare slots allow; the others by
//               how often tokens chose them together: greedily, then by swaps as long as one helps.
//               Layers are matched by the kinds of text that chose a node's experts.
//   balanced    copies by load, so that nodes have equal work: EPLB (balance_experts.h)
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

// How much an expert matters to its layer: the sum over its tokens of routing weight · |output|
// where the profile has it, else of routing weights, else the number of its tokens.
std::vector<double> expert_importance(const LayerProfile& layer);

// One group for each element of `slots`: so many experts of each layer that group holds. Groups are
// named node0, node1, … Each expert is in at least one group; each group has the same number of
// experts in every layer, and of every group of experts that the router chooses from
// (ExpertGrid::groups). With contiguous, `profile` may be null.
// Errors: place.slots (more than the experts, fewer than a token chooses, no multiple of the
// router's groups, or all together fewer than the experts), place.profile (none, though the policy
// needs one), place.balanced (nodes of different size); those of check_profile().
Result<std::vector<ExpertGroup>> place_experts(const ExpertProfile* profile, const ExpertGrid& grid,
                                               PlacePolicy policy,
                                               const std::vector<int64_t>& slots);

// The share of a layer's routing mass that a set of its experts has, and 1 for a layer without any
// mass. Of profiles without masses it is that of the selections.
double kept_share(const LayerProfile& layer, const ExpertSets& sets);

}  // namespace moec
