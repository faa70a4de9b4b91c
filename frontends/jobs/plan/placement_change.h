// Compares a placement with the experts that running nodes have.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "frontends/nodes/node_gates.h"
#include "ir/experts/expert_groups.h"
#include "ir/experts/expert_profile.h"
#include "models/cluster/size_nodes.h"

namespace moec {

// A node of the placement, and the group of servers that has its experts now.
struct NodeChange {
  std::string name;                  // of its group of experts
  std::vector<std::string> servers;  // empty: a new node
  ExpertSets gained, lost;           // only layers that change
  int64_t bytes = 0;                 // of the gained experts
  double tokens = 0;                 // recent tokens of its servers
  // Shares of the routing mass that these tokens wanted; 0 without tokens. `after` assumes the same
  // texts on the same node.
  double kept_before = 0, kept_after = 0;
};

struct PlacementChange {
  std::vector<NodeChange> nodes;
  int64_t bytes = 0;
  double tokens = 0;
  double kept_before = 0, kept_after = 0;  // means over tokens
};

// Number of copies of a layer's experts that the groups have now; the minimum over the layers.
int64_t copies_of(const std::vector<NodeGroup>& servers, const ExpertGrid& grid);

// Reassigns the sets of experts of each layer to groups of equal `slots`. The first groups belong
// to `servers` in order: they get the sets that their recent tokens want most, and of equally
// wanted ones those with the fewest new experts. Requires at least as many groups as servers.
void assign_sets(const std::vector<NodeGates>& gates, const std::vector<NodeGroup>& servers,
                 const ExpertGrid& grid, const std::vector<int64_t>& slots,
                 std::vector<ExpertGroup>& groups);

// `layers` has the bytes per layer of the model.
PlacementChange change_of(const std::vector<NodeGates>& gates,
                          const std::vector<NodeGroup>& servers, const ExpertGrid& grid,
                          const std::vector<LayerCost>& layers,
                          const std::vector<ExpertGroup>& groups);

// Returns the note place.no_gain if the recent tokens would not keep a larger share.
Diagnostics note_no_gain(const PlacementChange& change);

nlohmann::ordered_json change_json(const PlacementChange& change);
// A human-readable table.
std::string change_table(const PlacementChange& change);

}  // namespace moec
