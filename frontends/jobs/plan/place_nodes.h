// Places experts on the nodes of a cluster, based on the model's config, a usage profile of its
// experts, and the nodes' memory. Reads no weights.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/plan/plan_source.h"
#include "models/cluster/place_experts.h"
#include "models/cluster/size_nodes.h"

namespace moec {

struct PlaceNodesOptions {
  PlanSourceOptions plan;  // options of the export whose bytes are counted
  std::string profile;     // profile file or folder of moec analyze; empty: none
  PlacePolicy policy = PlacePolicy::packed;
  NodeRequest nodes;
};

struct PlacedNodes {
  std::string source, family;
  ExpertGrid grid;
  ClusterPlan nodes;
  std::vector<ExpertGroup> groups;  // one per group of nodes
  // With a profile: share of the routing mass that each group keeps, averaged over layers, and the
  // same for contiguous ranges of equal sizes. Measured on the profile's text; lower on other
  // texts.
  std::vector<double> kept, kept_by_ranges;
};

// Errors: those of plan_source(), read_expert_profile(), size_nodes() and place_experts();
// place.no_experts for a dense model.
Result<PlacedNodes> place_nodes(PlaceNodesOptions options);

// The placement file for `moec split --place` and `moec compare --groups`: groups as in
// ir/experts/expert_groups.h, and
//
//   "stages": ["0-23", "24-47"],
//   "nodes": [{"name": "stage0.node0", "stage": 0, "group": "node0", "experts": 64, "bytes": …}, …]
std::string placement_text(const PlacedNodes& placed);

// A human-readable table.
std::string placement_table(const PlacedNodes& placed);

}  // namespace moec
