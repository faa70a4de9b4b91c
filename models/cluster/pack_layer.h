// Chooses one layer's experts of each node for the policy `packed` (place_experts.h).
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "ir/experts/expert_profile.h"

namespace moec {

using NodeSets = std::vector<std::set<int64_t>>;  // experts of one layer, per node

// Importance of each expert in its layer: Σ routing weight · |output| over the expert's tokens.
// Falls back to Σ routing weight, then to the number of tokens, if the profile lacks the data.
std::vector<double> expert_importance(const LayerProfile& layer);

// Experts by descending importance; ties by ascending number.
std::vector<int64_t> by_importance(const LayerProfile& layer);

// Properties of nodes that influence a packing. Both lists have one element per node, or none.
struct PackedNodes {
  // Limits the routing mass of the experts that only one node has: on each node, at most 1.1 times
  // its share of all speeds, as long as slots allow it.
  std::vector<double> speeds;
  // Selections of the node's experts in other layers per text category, relative to all nodes. An
  // expert prefers nodes whose categories select it.
  std::vector<std::vector<double>> tastes;
};

// The number of a node's experts must be a multiple of grid.groups. Experts that tokens choose
// together share a node. If the profile lacks pairs, experts of the same text categories do.
NodeSets pack_layer(const LayerProfile& layer, const ExpertGrid& grid,
                    const std::vector<int64_t>& slots, const PackedNodes& nodes);

}  // namespace moec
