// Text categories of experts and of cluster nodes, as vectors with one element per category.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/experts/expert_profile.h"

namespace moec {

// The taste of an expert is a unit vector: its share of the selections per category, minus the mean
// over categories. It is 0 if all categories choose the expert equally. The taste of a node is the
// sum over its experts.
class CategoryTastes {
 public:
  // `experts` are experts of the layer; later indices refer to this list.
  CategoryTastes(const LayerProfile& layer, const std::vector<int64_t>& experts, size_t nodes);

  // False if the profile has no categories. All tastes are empty then.
  bool known() const { return categories_ > 0; }
  // Sets the taste of a node to `taste`, normalized and scaled by `weight`. Missing elements are 0.
  void prefer(size_t node, std::vector<double> taste, double weight);
  // Adds the taste of an expert to that of a node, times `sign`.
  void add(size_t node, size_t expert, double sign);
  // Dot product of the tastes of a node and of an expert.
  double likeness(size_t node, size_t expert) const;

 private:
  void make_unit(double* values) const;

  size_t categories_;
  std::vector<double> of_expert_, of_node_;  // [experts, categories], [nodes, categories]
};

}  // namespace moec
