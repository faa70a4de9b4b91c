#include "models/cluster/pack_layer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "ir/base/at.h"
#include "models/cluster/category_tastes.h"

namespace moec {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Assigns the experts that are not on all nodes, called single experts, to one node each. They are
// numbered in ascending order of the layer's experts, so those of a router group are consecutive.
class SinglePacking {
 public:
  SinglePacking(const LayerProfile& layer, const ExpertGrid& grid, std::vector<int64_t> singles,
                std::vector<int64_t> rooms)
      : singles_(std::move(singles)),
        nodes_(rooms.size()),
        home_(singles_.size(), kNoNode),
        rooms_(std::move(rooms)),
        sizes_(nodes_, 0),
        loads_(nodes_, 0),
        quotas_(nodes_, kNoLimit),
        pull_(nodes_ * singles_.size(), 0),
        tastes_(layer, singles_, nodes_),
        best_(singles_.size()) {
    const int64_t group_size = grid.experts / grid.groups;
    for (const int64_t expert : singles_) group_.push_back(expert / group_size);
    taken_.assign(nodes_ * static_cast<size_t>(grid.groups), 0);
    const bool weighed = !layer.mass.empty();
    for (const int64_t expert : singles_)
      mass_.push_back(weighed ? at(layer.mass, expert)
                              : static_cast<double>(at(layer.selections, expert)));
    measure_affinities(layer, grid.experts);
  }

  // Limits the sum of masses on each node.
  void limit(const std::vector<double>& speeds) {
    // The most important experts come first, so that the small ones fill the quotas. The slack
    // leaves room for affinities.
    constexpr double kSlack = 1.1;
    const double mass = std::accumulate(mass_.begin(), mass_.end(), 0.0);
    const double speed = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    for (size_t node = 0; node < nodes_; ++node)
      quotas_[node] = kSlack * mass * speeds[node] / speed;
  }

  // Adds an affinity to nodes of similar taste. It weighs as much as all experts of an average
  // node.
  void prefer(const std::vector<std::vector<double>>& tastes) {
    if (!tastes_.known()) return;
    const double count = static_cast<double>(singles_.size()),
                 each = count / static_cast<double>(nodes_);
    const double pairs = std::accumulate(affinities_.begin(), affinities_.end(), 0.0);
    for (size_t node = 0; node < nodes_; ++node) {
      tastes_.prefer(node, tastes[node], each);
      if (affinities_.empty()) continue;
      const double weight = pairs / (count * static_cast<double>(nodes_)) / each;
      for (size_t single = 0; single < singles_.size(); ++single)
        pull(node, single) = weight * tastes_.likeness(node, single);
    }
  }

  // Assigns an expert to the node with the largest affinity. Ties go to the emptiest node. Call it
  // by descending importance, so that important experts get their preferred node.
  void pack(int64_t expert) {
    const auto single = static_cast<size_t>(
        std::lower_bound(singles_.begin(), singles_.end(), expert) - singles_.begin());
    const auto better = [&](size_t a, size_t b) {
      const bool a_fits = fits(single, a), b_fits = fits(single, b);
      if (a_fits != b_fits) return a_fits;
      // If no node has quota left, the relative excess decides, not the affinity.
      if (!a_fits)
        return (loads_[a] + mass_[single]) / quotas_[a] < (loads_[b] + mass_[single]) / quotas_[b];
      const double a_pull = attraction(a, single), b_pull = attraction(b, single);
      if (a_pull != b_pull) return a_pull > b_pull;
      return sizes_[a] < sizes_[b];
    };
    std::optional<size_t> best;
    for (size_t node = 0; node < nodes_; ++node)
      if (taken(node, single) < rooms_[node] && (!best || better(node, *best))) best = node;
    if (best) move_to(single, *best);
  }

  // Swaps experts of nodes above their quota for less used ones. pack() exceeds a quota if the last
  // free slots are on a full node.
  void relieve() {
    const std::vector<size_t> order = by_mass();
    // Each swap reduces the excess of all nodes. The bound only limits the time.
    for (size_t swap = 0; swap < singles_.size(); ++swap) {
      size_t from = 0;
      for (size_t node = 1; node < nodes_; ++node)
        if (loads_[node] - quotas_[node] > loads_[from] - quotas_[from]) from = node;
      const double excess = loads_[from] - quotas_[from];
      const std::optional<std::pair<size_t, size_t>> best = relief(from, excess, order);
      if (!best) return;
      const size_t to = home_[best->second];
      move_to(best->first, to);
      move_to(best->second, from);
    }
  }

  // Swaps pairs of experts on different nodes, always the pair with the largest gain. Has no effect
  // without pairs in the profile.
  void improve() {
    if (affinities_.empty()) return;
    for (size_t a = 0; a < best_.size(); ++a) scan(a);
    // The loop terminates, because each swap increases the sum of affinities by more than kLeast.
    for (;;) {
      const auto first = std::max_element(
          best_.begin(), best_.end(), [](const Swap& x, const Swap& y) { return x.gain < y.gain; });
      if (first == best_.end() || first->gain <= kLeast) return;
      const auto a = static_cast<size_t>(first - best_.begin());
      const size_t b = first->other, from = home_[a], to = home_[b];
      move_to(a, to);
      move_to(b, from);
      rescan(from, to);
    }
  }

  void add_to(NodeSets& sets) const {
    for (size_t single = 0; single < singles_.size(); ++single)
      if (home_[single] != kNoNode) sets[home_[single]].insert(singles_[single]);
  }

 private:
  static constexpr size_t kNoNode = std::numeric_limits<size_t>::max();
  static constexpr double kLeast = 1e-9;  // above rounding differences between orders of summation

  struct Swap {
    double gain = 0;
    size_t other = 0;
  };

  // Cosine similarities of the selections of expert pairs: both / √(n_i · n_j), where `both` counts
  // the tokens that chose i and j. The diagonal is 0. Empty if the profile lacks pairs.
  void measure_affinities(const LayerProfile& layer, int64_t experts) {
    if (layer.together.empty()) return;
    const size_t count = singles_.size();
    affinities_.resize(count * count);
    for (size_t i = 0; i < count; ++i)
      for (size_t j = i + 1; j < count; ++j) {
        const auto both =
            static_cast<double>(at(layer.together, pair_at(singles_[i], singles_[j], experts)));
        const double alone = static_cast<double>(at(layer.selections, singles_[i])) *
                             static_cast<double>(at(layer.selections, singles_[j]));
        // If `both` is above 0, tokens chose i and j, so `alone` is not 0.
        affinities_[i * count + j] = affinities_[j * count + i] =
            both == 0 ? 0 : both / std::sqrt(alone);
      }
  }

  double attraction(size_t node, size_t single) {
    return affinities_.empty() ? tastes_.likeness(node, single) : pull(node, single);
  }

  // Sum of the affinities of an expert to the single experts of a node. Ordered by node, because
  // scan() reads the experts of one node.
  double& pull(size_t node, size_t single) { return pull_[node * singles_.size() + single]; }

  // Number of single experts on the node from the expert's router group.
  int64_t& taken(size_t node, size_t single) {
    return at(taken_, static_cast<int64_t>(node) * (std::ssize(taken_) / std::ssize(rooms_)) +
                          group_[single]);
  }

  bool fits(size_t single, size_t node) const {
    return loads_[node] + mass_[single] <= quotas_[node];
  }

  // Mass that a node may gain in a swap: a node above its quota must not gain any.
  double headroom(size_t node) const { return std::max(0.0, quotas_[node] - loads_[node]); }

  void add_pull(size_t node, size_t single, double sign) {
    tastes_.add(node, single, sign);
    if (affinities_.empty()) return;
    const double* own = &affinities_[single * singles_.size()];
    double* sums = &pull(node, 0);
    for (size_t other = 0; other < singles_.size(); ++other) sums[other] += sign * own[other];
  }

  void move_to(size_t single, size_t node) {
    if (const size_t from = home_[single]; from != kNoNode) {
      --taken(from, single);
      --sizes_[from];
      loads_[from] -= mass_[single];
      add_pull(from, single, -1);
    }
    home_[single] = node;
    ++taken(node, single);
    ++sizes_[node];
    loads_[node] += mass_[single];
    add_pull(node, single, 1);
  }

  // Change of the sum of affinities within nodes if `a` and `b` swap; 0 if they cannot.
  double gain(size_t a, size_t b) {
    const size_t from = home_[a], to = home_[b];
    if (from == to || from == kNoNode || to == kNoNode) return 0;
    const double more = mass_[b] - mass_[a];
    if (more > headroom(from) || -more > headroom(to)) return 0;
    // pull(to, a) includes `b`, and pull(from, b) includes `a`, but the swap does not put them on
    // one node: hence the last term.
    return pull(to, a) + pull(from, b) - pull(from, a) - pull(to, b) -
           2 * affinities_[a * singles_.size() + b];
  }

  // Single experts by ascending mass.
  std::vector<size_t> by_mass() const {
    std::vector<size_t> order(singles_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return mass_[a] < mass_[b]; });
    return order;
  }

  // A swap of an expert of a node with one of another node that has headroom: the smallest one that
  // ends the excess, or the largest one. Affinities do not count, because few experts move, and
  // improve() follows. `order` is by_mass(); its scans end early, at the first possible swap.
  std::optional<std::pair<size_t, size_t>> relief(size_t node, double excess,
                                                  const std::vector<size_t>& order) const {
    std::optional<std::pair<size_t, size_t>> best;
    double most = 0;
    for (size_t a = 0; a < singles_.size() && excess > 0; ++a) {
      if (home_[a] != node) continue;
      const auto can_swap = [&](size_t b) {
        const double less = mass_[a] - mass_[b];
        return home_[b] != node && home_[b] != kNoNode && group_[b] == group_[a] && less > 0 &&
               less <= headroom(home_[b]);
      };
      const auto ends = std::partition_point(
          order.begin(), order.end(), [&](size_t b) { return mass_[a] - mass_[b] >= excess; });
      auto found = std::find_if(std::make_reverse_iterator(ends), order.rend(), can_swap);
      size_t b = found == order.rend() ? a : *found;
      if (b == a)
        if (const auto next = std::find_if(ends, order.end(), can_swap); next != order.end())
          b = *next;
      const double less = mass_[a] - mass_[b];
      const bool is_better = most >= excess ? less >= excess && less < most : less > most;
      if (!is_better) continue;
      best = {a, b};
      most = less;
    }
    return best;
  }

  void consider(size_t a, size_t b) {
    const double own = gain(a, b);
    if (own > best_[a].gain || (own == best_[a].gain && own > 0 && b < best_[a].other))
      best_[a] = {own, b};
  }

  // Finds the best swap of `a` with a later expert of its router group.
  void scan(size_t a) {
    best_[a] = {};
    for (size_t b = a + 1; b < singles_.size() && group_[b] == group_[a]; ++b) consider(a, b);
  }

  // Updates the best swaps after experts moved between two nodes. Gains that involve neither node
  // are unchanged.
  void rescan(size_t from, size_t to) {
    const auto moved = [&](size_t single) { return home_[single] == from || home_[single] == to; };
    std::vector<size_t> changed;
    for (size_t b = 0; b < singles_.size(); ++b)
      if (moved(b)) changed.push_back(b);
    for (size_t a = 0; a < singles_.size(); ++a) {
      if (moved(a) || (best_[a].gain > 0 && moved(best_[a].other))) {
        scan(a);
        continue;
      }
      for (auto b = std::upper_bound(changed.begin(), changed.end(), a);
           b != changed.end() && group_[*b] == group_[a]; ++b)
        consider(a, *b);
    }
  }

  std::vector<int64_t> singles_;
  size_t nodes_;
  std::vector<size_t> home_;    // per expert: its node
  std::vector<int64_t> group_;  // per expert: its router group
  std::vector<double> mass_;
  std::vector<int64_t> rooms_;  // per node: single experts of each router group
  std::vector<int64_t> sizes_;  // per node: single experts
  std::vector<double> loads_, quotas_;
  std::vector<int64_t> taken_;             // [nodes, router groups]
  std::vector<double> affinities_, pull_;  // [experts, experts], [nodes, experts]
  CategoryTastes tastes_;
  std::vector<Swap> best_;  // per expert: its best swap with a later expert
};

}  // namespace

std::vector<double> expert_importance(const LayerProfile& layer) {
  std::vector<double> importance(layer.selections.begin(), layer.selections.end());
  if (!layer.saliency.empty())
    for (size_t e = 0; e < importance.size(); ++e) importance[e] *= layer.saliency[e];
  else if (!layer.mass.empty())
    importance = layer.mass;
  return importance;
}

std::vector<int64_t> by_importance(const LayerProfile& layer) {
  const std::vector<double> importance = expert_importance(layer);
  std::vector<int64_t> order(importance.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return at(importance, a) > at(importance, b); });
  return order;
}

NodeSets pack_layer(const LayerProfile& layer, const ExpertGrid& grid,
                    const std::vector<int64_t>& slots, const PackedNodes& nodes) {
  const std::vector<int64_t> order = by_importance(layer);
  const int64_t group_size = grid.experts / grid.groups;
  // An expert on all nodes uses one spare slot per node other than its first.
  const int64_t spare = std::accumulate(slots.begin(), slots.end(), int64_t{0}) - grid.experts;
  const auto others = std::max<int64_t>(1, std::ssize(slots) - 1);
  // The most important experts of each router group are on all nodes.
  const int64_t shared =
      std::min(spare / others, *std::min_element(slots.begin(), slots.end())) / grid.groups;
  NodeSets sets(slots.size());
  std::vector<int64_t> singles, left(static_cast<size_t>(grid.groups), shared);
  for (const int64_t expert : order)
    if (int64_t& own = at(left, expert / group_size); own > 0) {
      --own;
      for (auto& set : sets) set.insert(expert);
    } else {
      singles.push_back(expert);
    }
  std::vector<int64_t> rooms, sorted = singles;
  for (const int64_t own : slots) rooms.push_back(own / grid.groups - shared);
  std::sort(sorted.begin(), sorted.end());
  SinglePacking packing(layer, grid, sorted, rooms);
  if (!nodes.speeds.empty()) packing.limit(nodes.speeds);
  if (!nodes.tastes.empty()) packing.prefer(nodes.tastes);
  for (const int64_t expert : singles) packing.pack(expert);
  packing.relieve();
  packing.improve();
  packing.add_to(sets);
  // Other slots get copies of the most important experts that the node lacks.
  for (size_t node = 0; node < sets.size(); ++node) {
    std::vector<int64_t> room(static_cast<size_t>(grid.groups), slots[node] / grid.groups);
    for (const int64_t expert : sets[node]) --at(room, expert / group_size);
    for (const int64_t expert : order)
      if (int64_t& own = at(room, expert / group_size); own > 0 && sets[node].insert(expert).second)
        --own;
  }
  return sets;
}

}  // namespace moec
