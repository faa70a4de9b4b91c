// Lists a property of each layer, for config tests.
#pragma once

#include <vector>

#include "ir/model/model_config.h"

namespace moec {

inline std::vector<bool> moe_layers(const ModelConfig& model) {
  std::vector<bool> all;
  for (const LayerConfig& layer : model.layers) all.push_back(layer.moe);
  return all;
}

inline std::vector<int64_t> layer_windows(const ModelConfig& model) {
  std::vector<int64_t> all;
  for (const LayerConfig& layer : model.layers) all.push_back(layer.window);
  return all;
}

inline std::vector<bool> rotated_layers(const ModelConfig& model) {
  std::vector<bool> all;
  for (const LayerConfig& layer : model.layers) all.push_back(layer.rotated);
  return all;
}

}  // namespace moec
