#include "models/cluster/category_tastes.h"

#include <cmath>
#include <numeric>

#include "ir/base/at.h"

namespace moec {

CategoryTastes::CategoryTastes(const LayerProfile& layer, const std::vector<int64_t>& experts,
                               size_t nodes)
    : categories_(layer.by_category.size()),
      of_expert_(experts.size() * categories_),
      of_node_(nodes * categories_) {
  for (size_t c = 0; c < categories_; ++c) {
    const auto& selections = layer.by_category[c];
    // Relative to the category, so that categories with many tokens do not dominate.
    const auto all =
        static_cast<double>(std::accumulate(selections.begin(), selections.end(), int64_t{0}));
    for (size_t i = 0; i < experts.size() && all > 0; ++i)
      of_expert_[i * categories_ + c] = static_cast<double>(at(selections, experts[i])) / all;
  }
  for (size_t i = 0; i < experts.size() && known(); ++i) {
    double* own = &of_expert_[i * categories_];
    const double sum = std::accumulate(own, own + categories_, 0.0);
    for (size_t c = 0; c < categories_ && sum > 0; ++c) own[c] /= sum;
    make_unit(own);
  }
}

// Subtracts the mean over categories and normalizes.
void CategoryTastes::make_unit(double* values) const {
  const double mean =
      std::accumulate(values, values + categories_, 0.0) / static_cast<double>(categories_);
  double squares = 0;
  for (size_t c = 0; c < categories_; ++c) {
    values[c] -= mean;
    squares += values[c] * values[c];
  }
  // Rounding of equal values leaves differences of about 1e-17.
  constexpr double kEqual = 1e-24;
  for (size_t c = 0; c < categories_; ++c)
    values[c] = squares < kEqual ? 0 : values[c] / std::sqrt(squares);
}

void CategoryTastes::prefer(size_t node, std::vector<double> taste, double weight) {
  taste.resize(categories_);
  make_unit(taste.data());
  for (size_t c = 0; c < categories_; ++c) of_node_[node * categories_ + c] = weight * taste[c];
}

void CategoryTastes::add(size_t node, size_t expert, double sign) {
  for (size_t c = 0; c < categories_; ++c)
    of_node_[node * categories_ + c] += sign * of_expert_[expert * categories_ + c];
}

double CategoryTastes::likeness(size_t node, size_t expert) const {
  double dot = 0;
  for (size_t c = 0; c < categories_; ++c)
    dot += of_node_[node * categories_ + c] * of_expert_[expert * categories_ + c];
  return dot;
}

}  // namespace moec
