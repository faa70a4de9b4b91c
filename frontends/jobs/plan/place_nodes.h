// Places experts on the nodes of a cluster, based on the model's config, a usage profile of its
// experts, and the nodes' memory and speed. Reads no weights.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/plan/placement_change.h"
#include "frontends/jobs/plan/plan_source.h"
#include "frontends/nodes/node_servers.h"
#include "models/cluster/forecast_nodes.h"
#include "models/cluster/place_experts.h"
#include "models/cluster/size_nodes.h"

namespace moec {

struct PlaceNodesOptions {
  PlanSourceOptions plan;  // options of the export whose bytes are counted
  std::string profile;     // profile file or folder of moec analyze; empty: none
  // Running nodes, whose gate logs are the profile; empty: none. By default, the placement has as
  // many nodes and copies of experts.
  std::vector<NodeServer> servers;
  // PlaceOptions of the same names.
  std::optional<PlacePolicy> policy;
  bool allow_uncovered = false;
  NodeRequest nodes;
  std::string cluster;  // file of nodes (models/cluster/cluster_nodes.h), which become the pool of
                        // `nodes`; empty: none
  NodeMiss miss = NodeMiss::mask;
  // Reports of moec compare --groups (models/cluster/kl_curves.h); need a profile.
  std::vector<std::string> kl_reports;
};

// The use of a number of nodes of the cluster.
struct NodeCount {
  size_t nodes = 0;
  int64_t least = 0, most = 0;              // experts per layer, over the groups
  double copies = 0;                        // mean number of nodes per expert
  std::optional<double> tokens_per_second;  // sum over groups that decode one sequence each (mask)
};

struct ClassForecast {
  std::string name;
  std::vector<GroupForecast> groups;
  std::vector<std::optional<double>> kl;  // nats per token, per group; empty: not measured
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
  NodeMiss miss = NodeMiss::mask;
  // With a profile or known bandwidths. Without a profile, the only class has all experts equally
  // likely.
  std::vector<ClassForecast> classes;
  std::vector<NodeCount> counts;          // with a cluster: ascending, from the minimum
  std::optional<PlacementChange> change;  // with PlaceNodesOptions::servers
};

// Errors: those of plan_source(), read_expert_profile(), read_cluster_nodes(), read_kl_curves(),
// size_nodes(), place_experts(), forecast_nodes(), fetch_gates(), groups_of_servers() and
// profile_of_gates(), and
//   place.no_experts  a dense model
//   place.kl          reports without a profile, or with a miss policy that they do not measure
//   place.uncovered   allow_uncovered with peers, which need all experts
//   place.servers     several stages, which no server runs, or fewer nodes than groups of servers
Result<PlacedNodes> place_nodes(PlaceNodesOptions options);

}  // namespace moec
