#include "models/cluster/forecast_nodes.h"

#include <algorithm>
#include <iterator>

#include "models/plan/forecast.h"

namespace moec {
namespace {

// The choices of a token in one layer.
struct LayerUse {
  double own = 0;      // expected experts that the node computes
  double remote = 0;   // expected experts that the peer computes
  double request = 0;  // probability of a request
  double kept = 1;     // share of the routing that is computed
  size_t peer = 0;     // group
};

double seconds_on(const ClusterNode& node, double bytes, double macs) {
  const double reads = bytes / node.bandwidth;
  return node.flops > 0 ? std::max(reads, 2 * macs / node.flops) : reads;
}

class NodeForecaster {
 public:
  NodeForecaster(const ClusterPlan& plan, const ExpertGrid& grid, int64_t width)
      : plan_(plan), grid_(grid), vector_bytes_(static_cast<double>(width) * sizeof(float)) {}

  bool knows_speeds() const {
    return std::all_of(plan_.machines.begin(), plan_.machines.end(),
                       [](const ClusterNode& node) { return node.bandwidth > 0; });
  }

  // Seconds per token of a group. `uses` has one element per MoE layer.
  double seconds(size_t group, const std::vector<LayerUse>& uses) const {
    double sum = 0;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      sum += stage_seconds(s, group, uses);
      if (s > 0)
        sum += transfer(node(s - 1, group), node(s, group), 1) +
               std::max(node(s - 1, group).latency, node(s, group).latency) / 2;
    }
    return sum;
  }

 private:
  const ClusterNode& node(size_t stage, size_t group) const {
    return plan_.machines[plan_.node_at(stage, group)];
  }

  double transfer(const ClusterNode& a, const ClusterNode& b, double vectors) const {
    const double rate = std::min(a.link, b.link);
    return rate == 0 ? 0 : vectors * vector_bytes_ / rate;
  }

  double stage_seconds(size_t s, size_t group, const std::vector<LayerUse>& uses) const {
    const Stage& stage = plan_.stages[s];
    const auto inside = [&](int64_t layer) { return layer >= stage.first && layer <= stage.last; };
    const auto layers =
        static_cast<double>(std::count_if(grid_.layers.begin(), grid_.layers.end(), inside));
    // Layers may store their experts in different forms. The mean is exact for the sum.
    const double bytes = layers == 0 ? 0 : static_cast<double>(stage.experts) / layers;
    const double macs = layers == 0 ? 0 : static_cast<double>(stage.expert_macs) / layers;
    const ClusterNode& own = node(s, group);
    double experts = 0, remote = 0;
    for (size_t l = 0; l < grid_.layers.size(); ++l) {
      if (!inside(grid_.layers[l])) continue;
      experts += uses[l].own;
      if (uses[l].request == 0) continue;
      const ClusterNode& peer = node(s, uses[l].peer);
      remote += uses[l].request * (std::max(own.latency, peer.latency) + transfer(own, peer, 2)) +
                seconds_on(peer, uses[l].remote * bytes, uses[l].remote * macs);
    }
    return remote + seconds_on(own,
                               static_cast<double>(stage.trunk - stage.tables) + experts * bytes,
                               static_cast<double>(stage.trunk_macs) + experts * macs);
  }

  const ClusterPlan& plan_;
  const ExpertGrid& grid_;
  double vector_bytes_;
};

// Shares of the routing of a class that fall on a group's experts, and on those of two groups.
class GroupShares {
 public:
  GroupShares(const ExpertGrid& grid, const std::vector<ExpertGroup>& groups)
      : grid_(grid), groups_(groups) {}

  size_t groups() const { return groups_.size(); }
  double of_one(const PromptClass& prompts, size_t layer, size_t group) const {
    return share_on(prompts, grid_, layer, groups_[group].experts);
  }
  double of_two(const PromptClass& prompts, size_t layer, size_t a, size_t b) const {
    const int64_t number = grid_.layers[layer];
    const auto& first = groups_[a].experts.layers.at(number);
    const auto& second = groups_[b].experts.layers.at(number);
    ExpertSets either;
    std::set_union(first.begin(), first.end(), second.begin(), second.end(),
                   std::back_inserter(either.layers[number]));
    return share_on(prompts, grid_, layer, either);
  }

 private:
  const ExpertGrid& grid_;
  const std::vector<ExpertGroup>& groups_;
};

// Returns the peer of a group in a layer, by the use of all prompts; the group itself if it is the
// only one.
size_t peer_of(const GroupShares& shares, const PromptClass& prompts, size_t layer, size_t group) {
  double most = -1;
  size_t best = group;
  for (size_t other = 0; other < shares.groups(); ++other) {
    if (other == group) continue;
    const double share = shares.of_two(prompts, layer, group, other);
    if (share <= most) continue;
    most = share;
    best = other;
  }
  return best;
}

// Returns the use of a node that has the share `here`, and `both` with its peer.
LayerUse use_of(NodeMiss miss, double here, double both, double top_k) {
  if (miss == NodeMiss::mask) return {.own = top_k, .kept = here};
  if (miss == NodeMiss::skip) return {.own = top_k * here, .kept = here};
  // A class that uses neither node's experts chooses among the own ones.
  const double remote = both == 0 ? 0 : (both - here) / both;
  return {.own = top_k * (1 - remote),
          .remote = top_k * remote,
          .request = chance_of_one(remote, top_k),
          .kept = both};
}

}  // namespace

std::vector<double> masked_speeds(const ClusterPlan& plan, const ExpertGrid& grid, int64_t width) {
  const NodeForecaster forecaster(plan, grid, width);
  std::vector<double> speeds;
  if (!forecaster.knows_speeds()) return speeds;
  const std::vector<LayerUse> uses(grid.layers.size(), {.own = static_cast<double>(grid.top_k)});
  for (size_t group = 0; group < plan.slots.size(); ++group)
    speeds.push_back(1 / forecaster.seconds(group, uses));
  return speeds;
}

Result<std::vector<std::vector<GroupForecast>>> forecast_nodes(
    const ClusterPlan& plan, const ExpertGrid& grid, const std::vector<ExpertGroup>& groups,
    const std::vector<PromptClass>& classes, const NodeService& service) {
  const bool has_links = plan.machines.front().link > 0;
  if (service.miss == NodeMiss::peer && !has_links)
    return fail("place.link", "requests to a peer need the rates of the nodes' links",
                "add the field \"link\" to each node of the cluster");
  const NodeForecaster forecaster(plan, grid, service.width);
  const GroupShares shares(grid, groups);
  const size_t layers = grid.layers.size();
  std::vector<std::vector<GroupForecast>> forecasts(classes.size());
  for (size_t group = 0; group < groups.size(); ++group) {
    std::vector<size_t> peers(layers, group);
    for (size_t l = 0; l < layers && service.miss == NodeMiss::peer; ++l)
      peers[l] = peer_of(shares, classes.front(), l, group);
    for (size_t c = 0; c < classes.size(); ++c) {
      std::vector<LayerUse> uses;
      double kept = 0;
      for (size_t l = 0; l < layers; ++l) {
        LayerUse& use = uses.emplace_back(use_of(service.miss, shares.of_one(classes[c], l, group),
                                                 shares.of_two(classes[c], l, group, peers[l]),
                                                 static_cast<double>(grid.top_k)));
        use.peer = peers[l];
        kept += use.kept;
      }
      GroupForecast& own = forecasts[c].emplace_back();
      own.kept = kept / static_cast<double>(layers);
      if (forecaster.knows_speeds()) own.tokens_per_second = 1 / forecaster.seconds(group, uses);
    }
  }
  return forecasts;
}

}  // namespace moec
