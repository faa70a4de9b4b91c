#include "backends/residency/pinned_experts.h"

#include <algorithm>

#include "ir/base/at.h"

namespace moec {

std::vector<ExpertId> most_chosen(const ExpertProfile& profile, int64_t most) {
  std::vector<ExpertId> keys;
  for (const LayerProfile& layer : profile.layers) {
    std::vector<int64_t> order;
    for (int64_t e = 0; e < std::ssize(layer.selections); ++e)
      if (at(layer.selections, e) > 0) order.push_back(e);
    // `order` is ascending here, so the stable sort resolves ties in favour of the lower expert.
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return at(layer.selections, a) > at(layer.selections, b);
    });
    order.resize(static_cast<size_t>(std::min(std::ssize(order), most)));
    for (const int64_t expert : order) keys.push_back({layer.layer, expert});
  }
  return keys;
}

void add_selections(ExpertProfile& sum, const ExpertProfile& more) {
  for (LayerProfile& layer : sum.layers) {
    // find_layer() cannot return null: the caller guarantees the same layers in both profiles.
    const LayerProfile& other = *find_layer(more, layer.layer);
    layer.tokens += other.tokens;
    for (size_t e = 0; e < layer.selections.size(); ++e) layer.selections[e] += other.selections[e];
  }
}

}  // namespace moec
