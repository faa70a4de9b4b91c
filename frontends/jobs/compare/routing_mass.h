// How the routers of a model shared out the routing weights of some tokens.
#pragma once

#include <map>
#include <vector>

#include "backends/reference/rows.h"
#include "ir/experts/expert_sets.h"
#include "ir/experts/probe_table.h"

namespace moec {

class RoutingMass {
 public:
  // One row a token, one column an expert, as RoutingObserver has them. What a token gives its
  // experts counts 1; a token without an expert does not count.
  void add(int64_t layer, const Rows& weights);

  bool empty() const { return layers_.empty(); }
  bool finite() const;
  // The share that these experts have, over all layers and tokens.
  double kept(const ExpertSets& experts) const;
  // Layer by layer of the grid.
  RoutingShares shares(const ExpertGrid& grid) const;

 private:
  struct Layer {
    std::vector<double> sums;  // by expert
    double tokens = 0;
  };
  std::map<int64_t, Layer> layers_;
};

}  // namespace moec
