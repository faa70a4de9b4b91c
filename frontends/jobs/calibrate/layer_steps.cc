#include "frontends/jobs/calibrate/layer_steps.h"

namespace moec {

std::vector<LayerSteps> layers_of(const Plan& plan) {
  std::vector<LayerSteps> layers;
  for (size_t s = 0; s < plan.schedule.size(); ++s) {
    const int64_t layer = plan.shards[plan.schedule[s].shard].layer;
    // The schedule lists the shards of a layer consecutively, so comparing with the last entry
    // suffices.
    if (layers.empty() || layers.back().layer != layer) layers.push_back({layer, s, s});
    layers.back().end = s + 1;
  }
  return layers;
}

}  // namespace moec
