#include "backends/runtime/session/routing_mass.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/base/at.h"

namespace moec {

void RoutingMass::add(int64_t layer, const Rows& weights) {
  for (int64_t t = 0; t < weights.count(); ++t) {
    const std::span<const float> row = weights.row(t);
    const double all = std::accumulate(row.begin(), row.end(), 0.0);
    if (all == 0) continue;
    Layer& mass = layers_[layer];
    mass.sums.resize(row.size());
    for (size_t e = 0; e < row.size(); ++e) mass.sums[e] += row[e] / all;
    ++mass.tokens;
  }
}

void RoutingMass::decay(double factor) {
  for (auto& [number, layer] : layers_) {
    layer.tokens *= factor;
    for (double& sum : layer.sums) sum *= factor;
  }
}

double RoutingMass::tokens() const {
  double most = 0;
  for (const auto& [number, layer] : layers_) most = std::max(most, layer.tokens);
  return most;
}

bool RoutingMass::finite() const {
  return std::all_of(layers_.begin(), layers_.end(), [](const auto& layer) {
    const std::vector<double>& sums = layer.second.sums;
    return std::all_of(sums.begin(), sums.end(), [](double sum) { return std::isfinite(sum); });
  });
}

double RoutingMass::kept(const ExpertSets& experts) const {
  double sum = 0, tokens = 0;
  for (const auto& [number, layer] : layers_) {
    // The sums may have more columns than experts: null slots, which no set contains.
    for (int64_t e = 0; e < std::ssize(layer.sums); ++e)
      if (experts.has(number, e)) sum += at(layer.sums, e);
    tokens += layer.tokens;
  }
  return sum / tokens;
}

std::vector<double> RoutingMass::kept_by_layer(const ExpertSets& experts,
                                               const ExpertGrid& grid) const {
  std::vector<double> kept;
  const RoutingShares all = shares(grid);
  for (size_t i = 0; i < all.size(); ++i) {
    kept.push_back(0);
    for (int64_t e = 0; e < grid.experts; ++e)
      if (experts.has(grid.layers[i], e)) kept.back() += at(all[i], e);
  }
  return kept;
}

RoutingShares RoutingMass::shares(const ExpertGrid& grid) const {
  RoutingShares shares;
  for (const int64_t number : grid.layers) {
    // Layers without tokens keep zeros, so that all documents have rows of equal size.
    std::vector<double>& row = shares.emplace_back(static_cast<size_t>(grid.experts), 0);
    const auto found = layers_.find(number);
    if (found == layers_.end()) continue;
    const Layer& layer = found->second;
    // Columns after the experts are null slots.
    for (size_t e = 0; e < std::min(row.size(), layer.sums.size()); ++e)
      row[e] = layer.sums[e] / layer.tokens;
  }
  return shares;
}

}  // namespace moec
