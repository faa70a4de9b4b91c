// Ranks the nodes for a new session.
#pragma once

#include <chrono>
#include <string>

#include "frontends/jobs/route/node_pool.h"
#include "frontends/jobs/route/route_request.h"

namespace moec {

struct NodeChoice {
  NodeRanking ranking;  // all nodes
  std::string reason;   // for people: "probe of 32 tokens: node1 0.83, node0 0.61"
  bool probed = false;  // nodes were asked
};

// Uses the first of these that applies:
//   the category of the request, if `table` has it: the groups' log probability in the category
//   the routing weights of the prompt's first tokens on any node, with `table`: that of the nearest
//     category
//   the share of each node's experts in the routing weights of the prompt's first tokens
//   the number of requests that run on the nodes
// Ties, and nodes that do not answer, are ordered by the number of requests. Each node has `most`
// to answer.
NodeChoice choose_nodes(const RouteRequest& request, const NodePool& pool,
                        const std::optional<ProbeTable>& table, std::chrono::milliseconds most);

}  // namespace moec
