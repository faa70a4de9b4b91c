#include "models/cluster/place_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "ir/base/at.h"
#include "models/cluster/balance_experts.h"

namespace moec {
namespace {

using Sets = std::vector<std::set<int64_t>>;  // experts of one layer, per node

Status check_slots(const ExpertGrid& grid, const std::vector<int64_t>& slots) {
  const auto error = [](std::string cause, std::string next) {
    return fail("place.slots", std::move(cause), std::move(next));
  };
  int64_t sum = 0;
  for (size_t node = 0; node < slots.size(); ++node) {
    const int64_t own = slots[node];
    // A node masks the experts that it lacks, so it needs at least top-k experts.
    if (own > grid.experts || own < grid.top_k)
      return error(fmt::format("node {} has {} slots per layer for {} experts, but the top-k is "
                               "{}",
                               node, own, grid.experts, grid.top_k),
                   fmt::format("give each node {} to {} slots", grid.top_k, grid.experts));
    if (own % grid.groups != 0)
      return error(fmt::format("node {} has {} slots per layer, not a multiple of the router's {} "
                               "groups",
                               node, own, grid.groups),
                   "give each node the same number of experts from every group");
    sum += own;
  }
  if (sum >= grid.experts) return {};
  return error(fmt::format("{} nodes have {} slots per layer in total, fewer than the {} experts",
                           slots.size(), sum, grid.experts),
               "use more nodes, or nodes with more memory");
}

// Experts by descending importance; ties by ascending number.
std::vector<int64_t> by_importance(const std::vector<double>& importance) {
  std::vector<int64_t> order(importance.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return importance[static_cast<size_t>(a)] > importance[static_cast<size_t>(b)];
  });
  return order;
}

// Cosine similarities of the selections of expert pairs, [E, E]: both / √(n_i · n_j), where `both`
// counts the tokens that chose i and j. The diagonal is 0.
std::vector<double> affinities_of(const LayerProfile& layer, int64_t experts) {
  std::vector<double> affinities(static_cast<size_t>(experts * experts), 0);
  if (layer.together.empty()) return affinities;
  for (int64_t i = 0; i < experts; ++i)
    for (int64_t j = 0; j < experts; ++j) {
      if (i == j) continue;
      const auto both = static_cast<double>(at(layer.together, pair_at(i, j, experts)));
      const double alone = static_cast<double>(at(layer.selections, i)) *
                           static_cast<double>(at(layer.selections, j));
      // If `both` is above 0, tokens chose i and j, so `alone` is not 0.
      at(affinities, i * experts + j) = both == 0 ? 0 : both / std::sqrt(alone);
    }
  return affinities;
}

// The assignment of one layer's experts to nodes. A node has the same number of experts from each
// router group.
class LayerPacking {
 public:
  LayerPacking(const LayerProfile& layer, const ExpertGrid& grid, const std::vector<int64_t>& slots)
      : grid_(grid),
        slots_(slots),
        order_(by_importance(expert_importance(layer))),
        affinities_(affinities_of(layer, grid.experts)),
        sets_(slots.size()),
        home_(static_cast<size_t>(grid.experts), kNoNode),
        pull_(static_cast<size_t>(grid.experts) * slots.size(), 0) {}

  Sets run() {
    // An expert on all nodes uses one spare slot per node other than its first.
    const int64_t spare = std::accumulate(slots_.begin(), slots_.end(), int64_t{0}) - grid_.experts;
    const auto others = std::max<int64_t>(1, std::ssize(slots_) - 1);
    put_on_all(std::min(spare / others, *std::min_element(slots_.begin(), slots_.end())) /
               grid_.groups);
    for (const int64_t expert : order_)
      if (at(home_, expert) != kEveryNode) pack(expert);
    // The loop terminates, because each swap increases the sum of affinities by more than kLeast.
    while (swap_once()) {
    }
    for (size_t node = 0; node < sets_.size(); ++node)
      for (const int64_t expert : order_)
        if (has_room(node, expert)) sets_[node].insert(expert);
    return std::move(sets_);
  }

 private:
  static constexpr int64_t kNoNode = -1, kEveryNode = -2;

  int64_t group_of(int64_t expert) const { return expert / (grid_.experts / grid_.groups); }
  double affinity(int64_t a, int64_t b) const { return at(affinities_, a * grid_.experts + b); }
  // Sum of the affinities of `expert` to the experts that only `node` has.
  double& pull(int64_t expert, size_t node) {
    return at(pull_, expert * std::ssize(slots_) + static_cast<int64_t>(node));
  }

  // Places the `of_each_group` most important experts of each router group on all nodes.
  void put_on_all(int64_t of_each_group) {
    std::vector<int64_t> left(static_cast<size_t>(grid_.groups), of_each_group);
    for (const int64_t expert : order_) {
      if (at(left, group_of(expert)) == 0) continue;
      --at(left, group_of(expert));
      for (auto& set : sets_) set.insert(expert);
      at(home_, expert) = kEveryNode;
    }
  }

  bool has_room(size_t node, int64_t expert) const {
    const auto same = [&](int64_t other) { return group_of(other) == group_of(expert); };
    return std::count_if(sets_[node].begin(), sets_[node].end(), same) <
           slots_[node] / grid_.groups;
  }

  void move_to(int64_t expert, size_t node) {
    if (const int64_t from = at(home_, expert); from >= 0) {
      sets_[static_cast<size_t>(from)].erase(expert);
      for (int64_t e = 0; e < grid_.experts; ++e)
        pull(e, static_cast<size_t>(from)) -= affinity(e, expert);
    }
    at(home_, expert) = static_cast<int64_t>(node);
    sets_[node].insert(expert);
    for (int64_t e = 0; e < grid_.experts; ++e) pull(e, node) += affinity(e, expert);
  }

  // Assigns an expert to the node with the largest affinity. Ties go to the emptiest node.
  // run() calls pack() by descending importance, so important experts get their preferred node.
  void pack(int64_t expert) {
    std::optional<size_t> best;
    for (size_t node = 0; node < sets_.size(); ++node) {
      if (!has_room(node, expert)) continue;
      if (!best || pull(expert, node) > pull(expert, *best) ||
          (pull(expert, node) == pull(expert, *best) && sets_[node].size() < sets_[*best].size()))
        best = node;
    }
    if (best) move_to(expert, *best);
  }

  // Change of the sum of affinities within nodes if `a` and `b` swap. pull(a, to) includes `b`, and
  // pull(b, from) includes `a`, but the swap does not put them on one node: hence the last term.
  double gain(int64_t a, int64_t b) {
    const auto from = static_cast<size_t>(at(home_, a)), to = static_cast<size_t>(at(home_, b));
    return pull(a, to) + pull(b, from) - pull(a, from) - pull(b, to) - 2 * affinity(a, b);
  }

  // Swaps the pair of experts on different nodes with the largest gain.
  bool swap_once() {
    constexpr double kLeast = 1e-9;  // above rounding differences between orders of summation
    double most = kLeast;
    int64_t first = -1, second = -1;
    for (int64_t a = 0; a < grid_.experts; ++a)
      for (int64_t b = a + 1; b < grid_.experts; ++b) {
        if (at(home_, a) < 0 || at(home_, b) < 0 || at(home_, a) == at(home_, b)) continue;
        if (group_of(a) != group_of(b) || gain(a, b) <= most) continue;
        most = gain(a, b);
        first = a;
        second = b;
      }
    if (first < 0) return false;
    const auto from = static_cast<size_t>(at(home_, first));
    move_to(first, static_cast<size_t>(at(home_, second)));
    move_to(second, from);
    return true;
  }

  const ExpertGrid& grid_;
  const std::vector<int64_t>& slots_;
  std::vector<int64_t> order_;
  std::vector<double> affinities_;
  Sets sets_;
  std::vector<int64_t> home_;  // per expert: the only node with a copy
  std::vector<double> pull_;   // [experts, nodes]
};

// Selections of a node's experts per text category.
std::vector<double> taste(const LayerProfile& layer, const std::set<int64_t>& set) {
  std::vector<double> sums;
  for (const auto& selections : layer.by_category) {
    double sum = 0;
    for (const int64_t expert : set)
      sum += static_cast<double>(selections[static_cast<size_t>(expert)]);
    sums.push_back(sum);
  }
  return sums;
}

// Similarity of two centred tastes: their dot product.
double likeness(const std::vector<double>& a, const std::vector<double>& b) {
  double dot = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) dot += a[i] * b[i];
  return dot;
}

class LayerMatcher {
 public:
  explicit LayerMatcher(const std::vector<int64_t>& slots) : slots_(slots), tastes_(slots.size()) {}

  // Orders the sets of a layer so that each node gets the set most similar to its earlier layers.
  Sets match(const LayerProfile& layer, Sets sets) {
    std::vector<std::vector<double>> tastes;
    for (const auto& set : sets) tastes.push_back(taste(layer, set));
    center(tastes);
    Sets matched(sets.size());
    std::vector<bool> taken(sets.size(), false);
    for (size_t node = 0; node < sets.size(); ++node) {
      std::optional<size_t> best;
      for (size_t from = 0; from < sets.size(); ++from)
        if (!taken[from] && slots_[from] == slots_[node] &&
            (!best ||
             likeness(tastes[from], tastes_[node]) > likeness(tastes[*best], tastes_[node])))
          best = from;
      // `best` has a value: for each number of slots, there are as many sets as nodes.
      taken[*best] = true;
      matched[node] = std::move(sets[*best]);
      tastes_[node].resize(tastes[*best].size());
      for (size_t i = 0; i < tastes[*best].size(); ++i) tastes_[node][i] += tastes[*best][i];
    }
    return matched;
  }

 private:
  // Subtracts the mean over nodes and divides by the category's sum, so that frequent categories do
  // not dominate.
  static void center(std::vector<std::vector<double>>& tastes) {
    for (size_t c = 0; c < tastes.front().size(); ++c) {
      double sum = 0;
      for (const auto& own : tastes) sum += own[c];
      for (auto& own : tastes)
        own[c] = sum == 0 ? 0 : own[c] / sum - 1 / static_cast<double>(tastes.size());
    }
  }

  const std::vector<int64_t>& slots_;
  std::vector<std::vector<double>> tastes_;
};

Sets contiguous(const ExpertGrid& grid, const std::vector<int64_t>& slots) {
  const int64_t size = grid.experts / grid.groups;
  Sets sets(slots.size());
  int64_t first = 0;  // within each router group
  for (size_t node = 0; node < slots.size(); ++node) {
    const int64_t own = slots[node] / grid.groups;
    // If the nodes have more slots than experts, the last nodes repeat experts of earlier nodes.
    first = std::min(first, size - own);
    for (int64_t g = 0; g < grid.groups; ++g)
      for (int64_t e = first; e < first + own; ++e) sets[node].insert(g * size + e);
    first += own;
  }
  return sets;
}

// Places copies by load. If a node has two copies of an expert, the second slot goes to the most
// important expert that the node lacks.
Result<Sets> balanced(const LayerProfile& layer, const std::vector<int64_t>& slots) {
  const auto nodes = std::ssize(slots);
  // balance_experts() gives all devices the same number of slots.
  if (std::any_of(slots.begin(), slots.end(), [&](int64_t own) { return own != slots.front(); }))
    return fail("place.balanced", "the nodes have different numbers of slots",
                "give all nodes the same memory, or pass --policy packed");
  const std::vector<double> loads(layer.selections.begin(), layer.selections.end());
  MOEC_ASSIGN(const ExpertBalance balance,
              balance_experts(loads, {.replicas = nodes * slots.front(), .devices = nodes}));
  Sets sets(slots.size());
  for (size_t slot = 0; slot < balance.expert_of.size(); ++slot)
    sets[balance.device_of(slot, nodes)].insert(balance.expert_of[slot]);
  const std::vector<int64_t> order = by_importance(expert_importance(layer));
  for (auto& set : sets)
    for (const int64_t expert : order)
      if (std::ssize(set) < slots.front()) set.insert(expert);
  return sets;
}

}  // namespace

std::vector<double> expert_importance(const LayerProfile& layer) {
  std::vector<double> importance(layer.selections.begin(), layer.selections.end());
  if (!layer.saliency.empty())
    for (size_t e = 0; e < importance.size(); ++e) importance[e] *= layer.saliency[e];
  else if (!layer.mass.empty())
    importance = layer.mass;
  return importance;
}

double kept_share(const LayerProfile& layer, const ExpertSets& sets) {
  std::vector<double> shares(layer.selections.begin(), layer.selections.end());
  if (!layer.mass.empty()) shares = layer.mass;
  double kept = 0, all = 0;
  for (size_t e = 0; e < shares.size(); ++e) {
    all += shares[e];
    if (sets.has(layer.layer, static_cast<int64_t>(e))) kept += shares[e];
  }
  // Without any selection in the profile, no share is lost.
  return all == 0 ? 1 : kept / all;
}

Result<std::vector<ExpertGroup>> place_experts(const ExpertProfile* profile, const ExpertGrid& grid,
                                               PlacePolicy policy,
                                               const std::vector<int64_t>& slots) {
  MOEC_TRY(check_slots(grid, slots));
  if (profile == nullptr && policy != PlacePolicy::contiguous)
    return fail("place.profile", fmt::format("--policy {} needs a profile", enum_name(policy)),
                "pass --profile with the result of moec analyze, or --policy contiguous");
  std::vector<ExpertGroup> groups(slots.size());
  for (size_t node = 0; node < groups.size(); ++node)
    groups[node].name = fmt::format("node{}", node);
  LayerMatcher matcher(slots);
  for (const int64_t layer : grid.layers) {
    Sets sets;
    if (policy == PlacePolicy::contiguous) sets = contiguous(grid, slots);
    if (policy == PlacePolicy::balanced) {
      MOEC_ASSIGN(sets, balanced(*find_layer(*profile, layer), slots));
    }
    if (policy == PlacePolicy::packed) {
      const LayerProfile& own = *find_layer(*profile, layer);
      sets = matcher.match(own, LayerPacking(own, grid, slots).run());
    }
    for (size_t node = 0; node < groups.size(); ++node)
      groups[node].experts.layers[layer] = {sets[node].begin(), sets[node].end()};
  }
  return groups;
}

}  // namespace moec
