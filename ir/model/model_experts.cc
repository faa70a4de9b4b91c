#include "ir/model/model_experts.h"

namespace moec {

ExpertGrid expert_grid(const ModelConfig& model) {
  ExpertGrid grid{{},
                  model.moe.experts,
                  model.moe.routing.top_k,
                  model.moe.routing.groups,
                  model.moe.routing.groups_kept};
  for (size_t layer = 0; layer < model.layers.size(); ++layer)
    if (model.layers[layer].moe) grid.layers.push_back(static_cast<int64_t>(layer));
  return grid;
}

}  // namespace moec
