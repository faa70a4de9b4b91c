// Chooses the experts of each node for the policy `categories` (place_experts.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/cluster/pack_layer.h"
#include "models/cluster/prompt_classes.h"

namespace moec {

// Categories whose nodes would differ by at most this share of their selections use the same
// experts. Smaller differences are within the sampling error of a profile of some thousand tokens:
// a share of 0.5 in 2,500 selections has a standard error of 0.01.
inline constexpr double kSimilarCategories = 0.02;

// Indices of text categories, ascending.
using Categories = std::vector<size_t>;

// Assigns text categories to nodes, and experts to the nodes of their categories. In sums over
// categories, each one has the same weight, so that those with many tokens do not dominate.
class CategoryPlacement {
 public:
  // The text categories of a profile: prompt_classes() without all prompts. Empty if fewer than two
  // categories selected experts.
  static std::vector<PromptClass> categories_of(const ExpertProfile& profile,
                                                const ExpertGrid& grid);

  // `categories` are those of categories_of(), at least one; `slots` are experts per layer and
  // node.
  //
  // While there are more sets of categories than nodes, the two sets that lose the fewest
  // selections on one node are merged. Then sets are merged while that loses at most
  // kSimilarCategories. Sets repeat if there are more nodes. The largest nodes serve the sets that
  // lose the most.
  CategoryPlacement(const ExpertProfile& profile, const ExpertGrid& grid,
                    std::vector<PromptClass> categories, const std::vector<int64_t>& slots);

  // Categories per node.
  const std::vector<Categories>& of_nodes() const { return of_nodes_; }

  // Returns the experts that the categories of each node select most in grid.layers[layer]. If they
  // select none in the layer, the most important experts. With `cover`, each expert is on some
  // node; the slots must suffice for all experts. A missing expert replaces an expert that several
  // nodes have: if possible, on a node that repeats the set of another node, so that the other node
  // keeps its experts; otherwise on the node that loses the fewest selections.
  NodeSets sets(size_t layer, bool cover) const;

 private:
  std::vector<double> shares_of(size_t layer, const Categories& categories) const;
  std::vector<int64_t> top_experts(size_t layer, const std::vector<double>& shares,
                                   int64_t slots) const;
  double lost(const Categories& categories, int64_t slots) const;
  std::vector<Categories> merged_sets(size_t count, int64_t slots) const;

  const ExpertGrid& grid_;
  const std::vector<int64_t>& slots_;
  std::vector<PromptClass> categories_;
  std::vector<std::vector<double>> importance_;  // per layer and expert
  std::vector<Categories> of_nodes_;
  std::vector<bool> repeats_;  // per node: another node, at least as large, has its categories
};

}  // namespace moec
