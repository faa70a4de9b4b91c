// Forecasts the decoding of one sequence on the groups of cluster nodes, per class of prompts. A
// group has one node per stage, and a token visits them in turn.
//
// The time of a token on a node is the larger of
//   reads      bytes of the trunk with full caches and of the experts that it computes, divided by
//              the node's bandwidth;
//   products   two operations per multiply-add, divided by the node's flops.
// This is the roofline model (Williams, Waterman, Patterson 2009): decoding reads each weight once
// per token and uses it once. It is an upper bound of the speed, because attention, elementwise
// work and scheduling count as 0. The times of different nodes are added, without overlap. If the
// nodes have links, the transfer between two stages is half of the latency and one f32 vector of
// the model's width.
//
// Experts that a node lacks:
//   mask   the router chooses from the node's own experts
//   skip   the router chooses from all experts; the node omits the ones that it lacks
//   peer   the router chooses from the experts of the node and of one peer per layer, which
//   computes
//          its own ones. The peer is the node of the stage that has the largest routing share of
//          the missing experts. A token causes a request in a layer with the probability that at
//          least one of top-k independent choices falls on the peer. A request costs the latency,
//          two vectors, and the peer's time for its experts.
#pragma once

#include <optional>
#include <vector>

#include "ir/base/enum_table.h"
#include "ir/experts/expert_groups.h"
#include "models/cluster/prompt_classes.h"
#include "models/cluster/size_nodes.h"

namespace moec {

enum class NodeMiss : uint8_t { mask, skip, peer };
constexpr auto enum_names(NodeMiss) { return name_table<NodeMiss>({"mask", "skip", "peer"}); }

struct GroupForecast {
  double kept = 1;  // share of the routing that is computed, here or by peers; mean over layers
  std::optional<double> tokens_per_second;  // absent if a node's bandwidth is unknown
};

struct NodeService {
  NodeMiss miss = NodeMiss::mask;
  int64_t width = 0;  // elements of the model's residual stream
};

// Returns one forecast per class and group. Each group lists its experts of every layer. Error
// place.link: the policy is peer, and the nodes have no links.
Result<std::vector<std::vector<GroupForecast>>> forecast_nodes(
    const ClusterPlan& plan, const ExpertGrid& grid, const std::vector<ExpertGroup>& groups,
    const std::vector<PromptClass>& classes, const NodeService& service);

// Tokens per second of each group if a token computes top-k experts on its node, as with `mask`.
// Empty if the bandwidths are unknown.
std::vector<double> masked_speeds(const ClusterPlan& plan, const ExpertGrid& grid, int64_t width);

}  // namespace moec
