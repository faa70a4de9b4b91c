// Tables that a layer's attention reads, and names of ports in a shard of several layers.
#pragma once

#include <fmt/format.h>

#include <string>

#include "ir/graph/port_names.h"
#include "ir/model/plan.h"

namespace moec {

// True if the layer's attention reads the rotary table.
inline bool rotates(const ModelConfig& model, const LayerConfig& layer) {
  return model.rotates(layer);
}
// True if the layer's queries are multiplied by a factor per position.
inline bool scales_queries(const ModelConfig& model, const LayerConfig& layer) {
  const std::optional<QueryTemperature>& temperature = model.attention_of(layer).temperature;
  return temperature && (temperature->everywhere || !layer.rotated);
}

// True if the next layer's router reads this router's state.
inline bool hands_on_router_state(const ModelConfig& model, int64_t layer) {
  const auto next = static_cast<size_t>(layer) + 1;
  return next < model.layers.size() && model.layers[next].takes_router_state;
}

// The port from which the feed-forward part of a layer reads the residual stream: before the token
// mixer in parallel blocks, otherwise after it.
inline const char* feed_forward_port(const ModelConfig& model) {
  return model.stream.parallel ? kResidualPort : kHiddenPort;
}

// "L03": the prefix of the names of a layer's values.
inline std::string layer_label(int64_t layer) { return fmt::format("L{:02}", layer); }

// The name of an attention port in a shard of several layers. Caches, histories, states and new
// rows belong to one layer and get its label (k_state_L03). Layers with the same visible keys share
// a mask: attn_mask_w128 with a window, attn_mask_c8192 with chunks, otherwise attn_mask. Layers
// with one rotation share rope_cos and rope_sin; the second rotation has rope_cos_r1. All layers
// share query_scale and token_mask.
inline std::string port_among_layers(const ModelConfig& model, const std::string& port,
                                     int64_t layer) {
  const LayerConfig& config = at(model.layers, layer);
  if (port == kRopeCosPort || port == kRopeSinPort)
    if (const int64_t rotation = model.rotation_of(config); rotation > 0)
      return fmt::format("{}_r{}", port, rotation);
  if (port == kMaskPort)
    return port + (config.window == 0 ? "" : fmt::format("_w{}", config.window)) +
           (config.chunk == 0 ? "" : fmt::format("_c{}", config.chunk));
  if (port == kKeyState || port == kValueState || port == kNewKeys || port == kNewValues ||
      port == kHistoryPort || port == kNewHistory || port == kRecurrentState ||
      port == kNewRecurrentState)
    return fmt::format("{}_{}", port, layer_label(layer));
  return port;
}

}  // namespace moec
