// Sums of routing weights per layer and expert.
#pragma once

#include <map>
#include <vector>

#include "backends/reference/rows.h"
#include "ir/experts/probe_table.h"

namespace moec {

class RoutingMass {
 public:
  // Adds weights [tokens, experts] in the layout of RoutingObserver. Normalises each token's
  // weights to a sum of 1. Skips tokens without an expert.
  void add(int64_t layer, const Rows& weights);
  // Multiplies all sums by `factor`.
  void decay(double factor);

  bool empty() const { return layers_.empty(); }
  bool finite() const;
  // Tokens that were added, decayed as the sums; the largest number of all layers.
  double tokens() const;
  // Share of `experts` over all layers and tokens.
  double kept(const ExpertSets& experts) const;
  // The same per layer of the grid; 0 for a layer without tokens.
  std::vector<double> kept_by_layer(const ExpertSets& experts, const ExpertGrid& grid) const;
  // Shares per layer of the grid.
  RoutingShares shares(const ExpertGrid& grid) const;

 private:
  struct Layer {
    std::vector<double> sums;  // per expert
    double tokens = 0;
  };
  std::map<int64_t, Layer> layers_;
};

}  // namespace moec
