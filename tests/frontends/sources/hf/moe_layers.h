// Lists the MoE layers of a config, for config tests.
#pragma once

#include <vector>

#include "ir/model/model_config.h"

namespace moec {

inline std::vector<bool> moe_layers(const ModelConfig& model) {
  std::vector<bool> all;
  for (const LayerConfig& layer : model.layers) all.push_back(layer.moe);
  return all;
}

}  // namespace moec
