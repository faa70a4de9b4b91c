// Chooses the experts of each cluster node per layer, from a profile of their use. A node computes
// with its own experts only. Experts that tokens choose together should share a node, and experts
// that nearly every text needs should be on every node.
//
//   categories  a node has the experts that its text categories select most, so that the node of a
//               text's category keeps most of its routing (categorize_experts.h)
//   packed      replicates the most used experts on all nodes while spare slots last; assigns the
//               others by co-selection, greedily and then by improving swaps.
//               Layers are matched by the text categories that chose a node's experts.
//   balanced    copies experts by load to balance the nodes: EPLB (balance_experts.h)
//   contiguous  ranges of consecutive experts; needs no profile
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/experts/expert_groups.h"
#include "ir/experts/expert_profile.h"

namespace moec {

enum class PlacePolicy : uint8_t { categories, packed, balanced, contiguous };
constexpr auto enum_names(PlacePolicy) {
  return name_table<PlacePolicy>({"categories", "packed", "balanced", "contiguous"});
}

struct PlaceOptions {
  // By default, categories if at least two text categories of the profile selected experts, packed
  // with another profile, and contiguous without one.
  std::optional<PlacePolicy> policy;
  std::vector<double> speeds;  // one per group, above 0, or empty: with packed, limits the routing
                               // mass of each group (pack_layer.h)
  bool allow_uncovered = false;  // with categories: experts that no category selects enough may be
                                 // in no group
};

// Returns one group per element of `slots`, the group's number of experts per layer. Groups are
// named node0, node1, … Each expert is in at least one group, unless options.allow_uncovered. Each
// group has the same number of experts in every layer and in every router group
// (ExpertGrid::groups). `profile` may be null. Errors:
//   place.slots      slots above the number of experts, below top-k, not a multiple of the router's
//                    groups, or in total fewer than the experts
//   place.profile    the policy needs a profile, or at least two text categories
//   place.balanced   nodes of different sizes
//   place.uncovered  allow_uncovered with another policy than categories
// and those of check_profile().
Result<std::vector<ExpertGroup>> place_experts(const ExpertProfile* profile, const ExpertGrid& grid,
                                               const std::vector<int64_t>& slots,
                                               const PlaceOptions& options);

// The share of a layer's routing mass on a set of its experts; 1 if the layer has no mass. Uses
// selections if the profile has no masses.
double kept_share(const LayerProfile& layer, const ExpertSets& sets);

}  // namespace moec
