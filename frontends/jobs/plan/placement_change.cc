#include "frontends/jobs/plan/placement_change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "ir/base/at.h"
#include "ir/base/byte_text.h"
#include "ir/experts/expert_difference.h"
#include "models/cluster/place_experts.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

int64_t count_of(const ExpertSets& sets) {
  int64_t count = 0;
  for (const auto& [layer, experts] : sets.layers) count += std::ssize(experts);
  return count;
}

// The routing mass of a group of servers, and the share of it on a set of experts.
class WantedMass {
 public:
  WantedMass(const std::vector<NodeGates>& gates, const std::string& group) {
    for (const NodeGates& own : gates)
      if (own.server.group == group) add(own.layers);
  }

  double tokens() const { return layers_.empty() ? 0 : static_cast<double>(layers_[0].tokens); }

  // Returns the mean over the layers.
  double kept(const ExpertSets& experts) const {
    if (tokens() == 0) return 0;
    double sum = 0;
    for (const LayerProfile& layer : layers_) sum += kept_share(layer, experts);
    return sum / static_cast<double>(layers_.size());
  }

 private:
  void add(const std::vector<LayerProfile>& layers) {
    if (layers_.empty()) {
      layers_ = layers;
      return;
    }
    for (size_t l = 0; l < layers.size(); ++l) {
      layers_[l].tokens += layers[l].tokens;
      for (size_t e = 0; e < layers[l].mass.size(); ++e) layers_[l].mass[e] += layers[l].mass[e];
    }
  }

  std::vector<LayerProfile> layers_;
};

// Exchanges the sets of one layer between groups.
class LayerAssignment {
 public:
  // `layer` is an index into grid.layers.
  LayerAssignment(const std::vector<NodeGates>& gates, const std::vector<NodeGroup>& servers,
                  const ExpertGrid& grid, size_t layer)
      : servers_(servers), number_(grid.layers[layer]) {
    for (const NodeGroup& group : servers) {
      std::vector<double>& mass = mass_.emplace_back(static_cast<size_t>(grid.experts));
      for (const NodeGates& own : gates)
        if (own.server.group == group.name)
          for (size_t e = 0; e < mass.size(); ++e) mass[e] += own.layers[layer].mass[e];
    }
  }

  // Exchanges pairs as long as one helps.
  void run(const std::vector<int64_t>& slots, std::vector<ExpertGroup>& groups) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t a = 0; a < groups.size(); ++a)
        for (size_t b = a + 1; b < groups.size(); ++b) {
          auto &first = groups[a].experts.layers[number_],
               &second = groups[b].experts.layers[number_];
          if (slots[a] != slots[b] || !helps(a, first, b, second)) continue;
          std::swap(first, second);
          changed = true;
        }
    }
  }

 private:
  using Set = std::vector<int64_t>;

  bool helps(size_t a, const Set& first, size_t b, const Set& second) const {
    const double more = kept(a, second) + kept(b, first) - kept(a, first) - kept(b, second);
    // Above rounding differences between orders of summation, so that the loop ends. Masses are
    // thousandths of tokens.
    constexpr double kLeast = 1e-3;
    if (std::abs(more) > kLeast) return more > 0;
    return gained(a, second) + gained(b, first) < gained(a, first) + gained(b, second);
  }

  // 0 for new nodes.
  double kept(size_t group, const Set& set) const {
    double sum = 0;
    if (group < mass_.size())
      for (const int64_t expert : set) sum += at(mass_[group], expert);
    return sum;
  }

  int64_t gained(size_t group, const Set& set) const {
    if (group >= servers_.size()) return 0;
    return std::count_if(set.begin(), set.end(), [&](int64_t expert) {
      return !servers_[group].experts.has(number_, expert);
    });
  }

  const std::vector<NodeGroup>& servers_;
  int64_t number_;
  std::vector<std::vector<double>> mass_;  // [servers, experts]
};

NodeChange change_of_node(const ExpertGroup& group, const ExpertSets& before,
                          const ExpertGrid& grid, const std::vector<LayerCost>& layers) {
  NodeChange change;
  change.name = group.name;
  change.gained = in_first_only(group.experts, before, grid);
  change.lost = in_first_only(before, group.experts, grid);
  for (const auto& [layer, experts] : change.gained.layers)
    change.bytes += at(layers, layer).expert * std::ssize(experts);
  return change;
}

}  // namespace

int64_t copies_of(const std::vector<NodeGroup>& servers, const ExpertGrid& grid) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const int64_t layer : grid.layers) {
    int64_t copies = 0;
    for (const NodeGroup& group : servers) copies += group.experts.count(layer, grid);
    least = std::min(least, copies);
  }
  return least;
}

void assign_sets(const std::vector<NodeGates>& gates, const std::vector<NodeGroup>& servers,
                 const ExpertGrid& grid, const std::vector<int64_t>& slots,
                 std::vector<ExpertGroup>& groups) {
  for (size_t layer = 0; layer < grid.layers.size(); ++layer)
    LayerAssignment(gates, servers, grid, layer).run(slots, groups);
}

PlacementChange change_of(const std::vector<NodeGates>& gates,
                          const std::vector<NodeGroup>& servers, const ExpertGrid& grid,
                          const std::vector<LayerCost>& layers,
                          const std::vector<ExpertGroup>& groups) {
  PlacementChange change;
  for (size_t i = 0; i < groups.size(); ++i) {
    const bool is_new = i >= servers.size();
    const ExpertSets before = is_new ? no_experts(grid) : servers[i].experts;
    NodeChange node = change_of_node(groups[i], before, grid, layers);
    if (!is_new) {
      const WantedMass wanted(gates, servers[i].name);
      node.servers = servers[i].servers;
      // The profile counts thousandths of tokens.
      node.tokens = wanted.tokens() / 1000;
      node.kept_before = wanted.kept(before);
      node.kept_after = wanted.kept(groups[i].experts);
    }
    change.bytes += node.bytes;
    change.tokens += node.tokens;
    change.kept_before += node.tokens * node.kept_before;
    change.kept_after += node.tokens * node.kept_after;
    change.nodes.push_back(std::move(node));
  }
  // `tokens` is above 0: profile_of_gates() refuses nodes without tokens.
  change.kept_before /= change.tokens;
  change.kept_after /= change.tokens;
  return change;
}

Diagnostics note_no_gain(const PlacementChange& change) {
  if (change.kept_after > change.kept_before) return {};
  return {
      {Severity::note,
       "place.no_gain",
       fmt::format("the recent texts keep {:.1f} % of their routing mass now, and {:.1f} % with "
                   "the placement",
                   100 * change.kept_before, 100 * change.kept_after),
       "keep the current nodes, or pass another --policy",
       {}}};
}

ordered_json change_json(const PlacementChange& change) {
  auto nodes = ordered_json::array();
  for (const NodeChange& node : change.nodes)
    nodes.push_back({{"name", node.name},
                     {"servers", node.servers},
                     {"tokens", node.tokens},
                     {"gained", to_string(node.gained)},
                     {"lost", to_string(node.lost)},
                     {"bytes", node.bytes},
                     {"kept_before", node.kept_before},
                     {"kept_after", node.kept_after}});
  return {{"tokens", change.tokens},
          {"kept_before", change.kept_before},
          {"kept_after", change.kept_after},
          {"bytes", change.bytes},
          {"nodes", std::move(nodes)}};
}

std::string change_table(const PlacementChange& change) {
  std::string text =
      fmt::format("\n{:<16} {:>10} {:>8} {:>8} {:>10} {:>9} {:>9}  {}\n", "node", "tokens",
                  "gained", "lost", "bytes", "kept now", "then", "servers");
  for (const NodeChange& node : change.nodes)
    text += fmt::format(
        "{:<16} {:>10.0f} {:>8} {:>8} {:>10} {:>7.1f} % {:>7.1f} %  {}\n", node.name, node.tokens,
        count_of(node.gained), count_of(node.lost), decimal_bytes(node.bytes),
        100 * node.kept_before, 100 * node.kept_after,
        node.servers.empty() ? "new" : fmt::format("{}", fmt::join(node.servers, ", ")));
  return text + fmt::format(
                    "\nthe recent texts of the nodes keep {:.1f} % of their routing mass now, "
                    "and {:.1f} % after {} of experts are copied\n",
                    100 * change.kept_before, 100 * change.kept_after, decimal_bytes(change.bytes));
}

}  // namespace moec
