#include "models/cluster/categorize_experts.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "ir/base/at.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

Categories together(const Categories& a, const Categories& b) {
  Categories both;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

// Merges sets of categories by the selections that a node of each set loses.
class CategoryMerger {
 public:
  // Selections that a node of these categories loses, summed over layers and categories.
  using Loss = std::function<double(const Categories&)>;

  CategoryMerger(size_t categories, Loss loss) : loss_(std::move(loss)), sets_(categories) {
    for (size_t c = 0; c < categories; ++c) sets_[c] = {c};
  }

  // Merges down to `count` sets, then while a merge loses at most `similar` per category.
  void merge(size_t count, double similar) {
    while (sets_.size() > 1 && merge_two(sets_.size() > count, similar)) {
    }
  }

  // Returns the sets; those that lose the most selections per category come first.
  std::vector<Categories> by_loss() {
    std::stable_sort(sets_.begin(), sets_.end(), [&](const Categories& a, const Categories& b) {
      return lost(a) / static_cast<double>(a.size()) > lost(b) / static_cast<double>(b.size());
    });
    return sets_;
  }

 private:
  // Merges the two sets that lose the least, and returns true. Unless it must, only if they lose at
  // most `similar` per category.
  bool merge_two(bool must, double similar) {
    double least = std::numeric_limits<double>::infinity();
    size_t into = 0, from = 0;
    for (size_t a = 0; a < sets_.size(); ++a)
      for (size_t b = a + 1; b < sets_.size(); ++b) {
        const double more = lost(together(sets_[a], sets_[b])) - lost(sets_[a]) - lost(sets_[b]);
        if (more >= least) continue;
        least = more;
        into = a;
        from = b;
      }
    Categories both = together(sets_[into], sets_[from]);
    if (!must && least > similar * static_cast<double>(both.size())) return false;
    sets_[into] = std::move(both);
    sets_.erase(std::next(sets_.begin(), static_cast<std::ptrdiff_t>(from)));
    return true;
  }

  double lost(const Categories& categories) {
    const auto [found, is_new] = lost_.try_emplace(categories, 0.0);
    if (is_new) found->second = loss_(categories);
    return found->second;
  }

  Loss loss_;
  std::vector<Categories> sets_;
  std::map<Categories, double> lost_;  // results of loss_
};

// Adds the experts of a layer that no node has. `shares` are those of each node's categories.
class Cover {
 public:
  Cover(const ExpertGrid& grid, const std::vector<std::vector<double>>& shares,
        const std::vector<bool>& repeats, NodeSets& sets)
      : grid_(grid),
        shares_(shares),
        repeats_(repeats),
        sets_(sets),
        copies_(static_cast<size_t>(grid.experts), 0) {
    for (size_t node = 0; node < sets.size(); ++node) {
      std::vector<int64_t> order(sets[node].begin(), sets[node].end());
      for (const int64_t expert : order) ++at(copies_, expert);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return at(shares[node], a) > at(shares[node], b);
      });
      auto& queues = queues_.emplace_back(static_cast<size_t>(grid.groups));
      for (const int64_t expert : order) at(queues, group_of(expert)).push_back(expert);
    }
  }

  void add_missing() {
    std::vector<int64_t> missing;
    for (int64_t e = 0; e < grid_.experts; ++e)
      if (at(copies_, e) == 0) missing.push_back(e);
    // The most selected experts first, so that they displace the least selected copies.
    std::stable_sort(missing.begin(), missing.end(),
                     [&](int64_t a, int64_t b) { return largest_share(a) > largest_share(b); });
    for (const int64_t expert : missing) add(expert);
  }

 private:
  int64_t group_of(int64_t expert) const { return expert / (grid_.experts / grid_.groups); }

  double largest_share(int64_t expert) const {
    double most = 0;
    for (const auto& own : shares_) most = std::max(most, at(own, expert));
    return most;
  }

  void add(int64_t expert) {
    // Texts of a node that repeats the set of another node lose nothing: they have the other one.
    std::pair<bool, double> least{true, std::numeric_limits<double>::infinity()};
    size_t best = sets_.size();
    for (size_t node = 0; node < sets_.size(); ++node) {
      std::vector<int64_t>& queue = at(queues_[node], group_of(expert));
      // An expert without a second copy never gets one again, so it leaves the queue for good.
      while (!queue.empty() && at(copies_, queue.back()) < 2) queue.pop_back();
      if (queue.empty()) continue;
      const std::pair loss{!repeats_[node],
                           at(shares_[node], queue.back()) - at(shares_[node], expert)};
      if (loss >= least) continue;
      least = loss;
      best = node;
    }
    // The nodes have at least as many slots as experts in each router group, so a missing expert
    // implies a second copy of another one.
    MOEC_CHECK(best < sets_.size(), "no expert has a second copy");
    std::vector<int64_t>& queue = at(queues_[best], group_of(expert));
    --at(copies_, queue.back());
    ++at(copies_, expert);
    sets_[best].erase(queue.back());
    sets_[best].insert(expert);
    queue.pop_back();
  }

  const ExpertGrid& grid_;
  const std::vector<std::vector<double>>& shares_;
  const std::vector<bool>& repeats_;
  NodeSets& sets_;
  std::vector<int64_t> copies_;  // number of nodes per expert
  // Per node and router group: experts that may be replaced, the least selected one last.
  std::vector<std::vector<std::vector<int64_t>>> queues_;
};

}  // namespace

std::vector<PromptClass> CategoryPlacement::categories_of(const ExpertProfile& profile,
                                                          const ExpertGrid& grid) {
  std::vector<PromptClass> classes = prompt_classes(&profile, grid);
  classes.erase(classes.begin());  // all prompts
  if (classes.size() < 2) classes.clear();
  return classes;
}

CategoryPlacement::CategoryPlacement(const ExpertProfile& profile, const ExpertGrid& grid,
                                     std::vector<PromptClass> categories,
                                     const std::vector<int64_t>& slots)
    : grid_(grid),
      slots_(slots),
      categories_(std::move(categories)),
      of_nodes_(slots.size()),
      repeats_(slots.size()) {
  for (const int64_t layer : grid.layers)
    importance_.push_back(expert_importance(*find_layer(profile, layer)));
  const int64_t mean = std::accumulate(slots.begin(), slots.end(), int64_t{0}) / std::ssize(slots);
  const std::vector<Categories> sets = merged_sets(slots.size(), mean);
  std::vector<size_t> order(slots.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return slots[a] > slots[b]; });
  for (size_t i = 0; i < order.size(); ++i) {
    of_nodes_[order[i]] = sets[i % sets.size()];
    repeats_[order[i]] = i >= sets.size();
  }
}

NodeSets CategoryPlacement::sets(size_t layer, bool cover) const {
  std::vector<std::vector<double>> shares;
  NodeSets sets;
  for (size_t node = 0; node < slots_.size(); ++node) {
    shares.push_back(shares_of(layer, of_nodes_[node]));
    std::vector<int64_t> own = top_experts(layer, shares.back(), slots_[node]);
    std::sort(own.begin(), own.end());  // a set of sorted numbers is built in linear time
    sets.emplace_back(own.begin(), own.end());
  }
  if (cover) Cover(grid_, shares, repeats_, sets).add_missing();
  return sets;
}

// Sum of the shares of these categories in the selections, per expert.
std::vector<double> CategoryPlacement::shares_of(size_t layer, const Categories& categories) const {
  std::vector<double> sums(static_cast<size_t>(grid_.experts), 0);
  for (const size_t category : categories) {
    // Empty if the category selected no expert in the layer.
    const std::vector<double>& shares = categories_[category].shares[layer];
    for (size_t e = 0; e < shares.size(); ++e) sums[e] += shares[e];
  }
  return sums;
}

// Returns the experts with the largest shares, in equal numbers from each router group. Ties go to
// the more important expert.
std::vector<int64_t> CategoryPlacement::top_experts(size_t layer, const std::vector<double>& shares,
                                                    int64_t slots) const {
  const std::vector<double>& importance = importance_[layer];
  const int64_t size = grid_.experts / grid_.groups, own = slots / grid_.groups;
  const auto before = [&](int64_t a, int64_t b) {
    if (at(shares, a) != at(shares, b)) return at(shares, a) > at(shares, b);
    if (at(importance, a) != at(importance, b)) return at(importance, a) > at(importance, b);
    return a < b;
  };
  std::vector<int64_t> top, group(static_cast<size_t>(size));
  for (int64_t first = 0; first < grid_.experts; first += size) {
    std::iota(group.begin(), group.end(), first);
    std::nth_element(group.begin(), group.begin() + own, group.end(), before);
    top.insert(top.end(), group.begin(), group.begin() + own);
  }
  return top;
}

double CategoryPlacement::lost(const Categories& categories, int64_t slots) const {
  const int64_t size = grid_.experts / grid_.groups, own = slots / grid_.groups;
  double sum = 0;
  for (size_t layer = 0; layer < grid_.layers.size(); ++layer) {
    std::vector<double> shares = shares_of(layer, categories);
    for (auto group = shares.begin(); group != shares.end(); group += size) {
      std::nth_element(group, group + own, group + size, std::greater<>());
      sum = std::accumulate(group + own, group + size, sum);
    }
  }
  return sum;
}

std::vector<Categories> CategoryPlacement::merged_sets(size_t count, int64_t slots) const {
  CategoryMerger merger(categories_.size(),
                        [&](const Categories& own) { return lost(own, slots); });
  merger.merge(count, kSimilarCategories * static_cast<double>(grid_.layers.size()));
  return merger.by_loss();
}

}  // namespace moec
