#include "models/cluster/place_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "ir/base/at.h"
#include "models/cluster/balance_experts.h"
#include "models/cluster/categorize_experts.h"
#include "models/cluster/pack_layer.h"

namespace moec {
namespace {

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

Status check_policy(const ExpertProfile* profile, PlacePolicy policy, bool has_categories,
                    bool allow_uncovered) {
  const std::string_view name = enum_name(policy);
  if (allow_uncovered && policy != PlacePolicy::categories)
    return fail("place.uncovered",
                fmt::format("--policy {} puts each expert on a node, so --allow-uncovered has no "
                            "effect",
                            name),
                "omit --allow-uncovered, or pass --policy categories");
  if (policy == PlacePolicy::contiguous) return {};
  if (profile == nullptr)
    return fail("place.profile", fmt::format("--policy {} needs a profile", name),
                "pass --profile with the result of moec analyze, or --policy contiguous");
  if (policy == PlacePolicy::categories && !has_categories)
    return fail("place.profile",
                "--policy categories needs a profile with at least two text categories",
                "run moec analyze with --prompts, or pass --policy packed");
  return {};
}

PlacePolicy default_policy(const ExpertProfile* profile, bool has_categories) {
  if (profile == nullptr) return PlacePolicy::contiguous;
  return has_categories ? PlacePolicy::categories : PlacePolicy::packed;
}

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
  LayerMatcher(const std::vector<int64_t>& slots, const std::vector<double>& speeds)
      : slots_(slots), speeds_(speeds), tastes_(slots.size()) {}

  // Properties of unequal nodes. The sets of equal nodes can be exchanged, so match() alone decides
  // on their tastes.
  PackedNodes nodes() const {
    for (size_t node = 1; node < slots_.size(); ++node)
      if (!are_equal(0, node)) return {speeds_, tastes_};
    return {speeds_, {}};
  }

  // Orders the sets of a layer so that each node gets the set most similar to its earlier layers.
  NodeSets match(const LayerProfile& layer, NodeSets sets) {
    std::vector<std::vector<double>> tastes;
    for (const auto& set : sets) tastes.push_back(taste(layer, set));
    center(tastes);
    NodeSets matched(sets.size());
    std::vector<bool> taken(sets.size(), false);
    for (size_t node = 0; node < sets.size(); ++node) {
      std::optional<size_t> best;
      for (size_t from = 0; from < sets.size(); ++from)
        if (!taken[from] && are_equal(from, node) &&
            (!best ||
             likeness(tastes[from], tastes_[node]) > likeness(tastes[*best], tastes_[node])))
          best = from;
      // `best` has a value, because each set belongs to a node.
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

  bool are_equal(size_t a, size_t b) const {
    return slots_[a] == slots_[b] && (speeds_.empty() || speeds_[a] == speeds_[b]);
  }

  const std::vector<int64_t>& slots_;
  const std::vector<double>& speeds_;
  std::vector<std::vector<double>> tastes_;
};

NodeSets contiguous(const ExpertGrid& grid, const std::vector<int64_t>& slots) {
  const int64_t size = grid.experts / grid.groups;
  NodeSets sets(slots.size());
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
Result<NodeSets> balanced(const LayerProfile& layer, const std::vector<int64_t>& slots) {
  const auto nodes = std::ssize(slots);
  // balance_experts() gives all devices the same number of slots.
  if (std::any_of(slots.begin(), slots.end(), [&](int64_t own) { return own != slots.front(); }))
    return fail("place.balanced", "the nodes have different numbers of slots",
                "give all nodes the same memory, or pass --policy packed");
  const std::vector<double> loads(layer.selections.begin(), layer.selections.end());
  MOEC_ASSIGN(const ExpertBalance balance,
              balance_experts(loads, {.replicas = nodes * slots.front(), .devices = nodes}));
  NodeSets sets(slots.size());
  for (size_t slot = 0; slot < balance.expert_of.size(); ++slot)
    sets[balance.device_of(slot, nodes)].insert(balance.expert_of[slot]);
  const std::vector<int64_t> order = by_importance(layer);
  for (auto& set : sets)
    for (const int64_t expert : order)
      if (std::ssize(set) < slots.front()) set.insert(expert);
  return sets;
}

}  // namespace

double kept_share(const LayerProfile& layer, const ExpertSets& sets) {
  std::vector<double> shares(layer.selections.begin(), layer.selections.end());
  if (!layer.mass.empty()) shares = layer.mass;
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  const auto found = sets.layers.find(layer.layer);
  // Without any selection in the profile, no share is lost.
  if (all == 0 || found == sets.layers.end()) return 1;
  double kept = 0;
  for (const int64_t expert : found->second) kept += at(shares, expert);
  return kept / all;
}

Result<std::vector<ExpertGroup>> place_experts(const ExpertProfile* profile, const ExpertGrid& grid,
                                               const std::vector<int64_t>& slots,
                                               const PlaceOptions& options) {
  MOEC_TRY(check_slots(grid, slots));
  std::vector<PromptClass> categories;
  if (profile != nullptr) categories = CategoryPlacement::categories_of(*profile, grid);
  const bool has_categories = !categories.empty();
  const PlacePolicy policy = options.policy.value_or(default_policy(profile, has_categories));
  MOEC_TRY(check_policy(profile, policy, has_categories, options.allow_uncovered));
  std::vector<ExpertGroup> groups(slots.size());
  for (size_t node = 0; node < groups.size(); ++node)
    groups[node].name = fmt::format("node{}", node);
  std::optional<CategoryPlacement> by_category;
  if (policy == PlacePolicy::categories)
    by_category.emplace(*profile, grid, std::move(categories), slots);
  LayerMatcher matcher(slots, options.speeds);
  for (size_t l = 0; l < grid.layers.size(); ++l) {
    const int64_t layer = grid.layers[l];
    const LayerProfile* own = profile == nullptr ? nullptr : find_layer(*profile, layer);
    NodeSets sets;
    switch (policy) {
      case PlacePolicy::categories:
        sets = by_category->sets(l, !options.allow_uncovered);
        break;
      case PlacePolicy::packed:
        sets = matcher.match(*own, pack_layer(*own, grid, slots, matcher.nodes()));
        break;
      case PlacePolicy::balanced: {
        MOEC_ASSIGN(sets, balanced(*own, slots));
        break;
      }
      case PlacePolicy::contiguous:
        sets = contiguous(grid, slots);
        break;
    }
    for (size_t node = 0; node < groups.size(); ++node)
      groups[node].experts.layers[layer] = {sets[node].begin(), sets[node].end()};
  }
  return groups;
}

}  // namespace moec
