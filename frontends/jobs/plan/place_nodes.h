// Decides which experts the nodes of a cluster hold, from a model's config, a profile of how its
// experts were used, and the nodes' memory. No weights are read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/plan/plan_source.h"
#include "models/cluster/place_experts.h"
#include "models/cluster/size_nodes.h"

namespace moec {

struct PlaceNodesOptions {
  PlanSourceOptions plan;  // bytes are counted as an export with these options would write them
  std::string profile;     // file or folder of moec analyze; empty: none
  PlacePolicy policy = PlacePolicy::packed;
  NodeRequest nodes;
};

struct PlacedNodes {
  std::string source, family;
  ExpertGrid grid;
  ClusterPlan nodes;
  std::vector<ExpertGroup> groups;  // by group of nodes
  // With a profile: the share of the routing mass that each group keeps, the mean over the layers;
  // and that of ranges of experts of the same sizes. Shares of the text of the profile: of another
  // text they are lower.
  std::vector<double> kept, kept_by_ranges;
};

// Errors: those of plan_source(), read_expert_profile(), size_nodes() and place_experts();
// place.no_experts for a dense model.
Result<PlacedNodes> place_nodes(PlaceNodesOptions options);

// The file that `moec split --place` and `moec compare --groups` read: groups as in
// ir/experts/expert_groups.h, and
//
//   "stages": ["0-23", "24-47"],
//   "nodes": [{"name": "stage0.node0", "stage": 0, "group": "node0", "experts": 64, "bytes": …}, …]
std::string placement_text(const PlacedNodes& placed);

// A table for people.
std::string placement_table(const PlacedNodes& placed);

}  // namespace moec
