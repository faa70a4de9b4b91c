#include "ir/experts/expert_difference.h"

namespace moec {

ExpertSets in_first_only(const ExpertSets& a, const ExpertSets& b, const ExpertGrid& grid) {
  ExpertSets sets;
  for (const int64_t layer : grid.layers)
    for (int64_t e = 0; e < grid.experts; ++e)
      if (a.has(layer, e) && !b.has(layer, e)) sets.layers[layer].push_back(e);
  return sets;
}

ExpertSets no_experts(const ExpertGrid& grid) {
  ExpertSets none;
  for (const int64_t layer : grid.layers) none.layers[layer] = {};
  return none;
}

}  // namespace moec
