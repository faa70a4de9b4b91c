// The experts that the routers of running nodes wanted, from GET /v1/gates of `moec serve`.
#pragma once

#include <string>
#include <vector>

#include "frontends/nodes/node_servers.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_profile.h"

namespace moec {

// The model whose nodes are asked.
struct GatesModel {
  std::string family;
  ExpertGrid grid;
};

struct NodeGates {
  NodeServer server;
  ExpertSets experts;                // that the node has
  std::vector<LayerProfile> layers;  // of the grid; counts are thousandths of tokens
};

// Asks each server. Errors, which name the server: gates.unreachable, gates.status (a reply with
// another status than 200), gates.api (not a server of moec), gates.model (a node of another
// model), gates.syntax, gates.missing_field, gates.bad_value, …; those of parse_expert_sets().
Result<std::vector<NodeGates>> fetch_gates(const std::vector<NodeServer>& servers,
                                           const GatesModel& model);

// Servers with the same group are replicas of one node.
struct NodeGroup {
  std::string name;
  std::vector<std::string> servers;
  ExpertSets experts;
};
// Returns the groups in the order of their first servers. Error gates.replicas: two servers of a
// group have different experts.
Result<std::vector<NodeGroup>> groups_of_servers(const std::vector<NodeGates>& gates);

// Adds up the counts of all nodes, so that nodes count in proportion to their recent tokens. The
// profile's categories are the groups: texts that a gateway sent to the same node resemble one
// another. Error gates.no_tokens: no node has served a text.
Result<ExpertProfile> profile_of_gates(const std::vector<NodeGates>& gates,
                                       const std::vector<NodeGroup>& groups,
                                       const GatesModel& model);

}  // namespace moec
