// Which tables a layer's attention reads, and what its ports are called among several layers.
#pragma once

#include <fmt/format.h>

#include <string>

#include "ir/graph/port_names.h"
#include "ir/plan/plan.h"

namespace moec {

// Whether the layer's attention reads the rotation's table, or a factor for its queries.
inline bool rotates(const ModelConfig& model, const LayerConfig& layer) {
  return layer.rotated && model.attention.rope.style != RopeStyle::none;
}
inline bool scales_queries(const ModelConfig& model, const LayerConfig& layer) {
  return !layer.rotated && model.attention.temperature.has_value();
}

// Whether the next layer's router goes on from this one's.
inline bool hands_on_router_state(const ModelConfig& model, int64_t layer) {
  const auto next = static_cast<size_t>(layer) + 1;
  return next < model.layers.size() && model.layers[next].takes_router_state;
}

// "L03": in front of the names of a layer's values.
inline std::string layer_label(int64_t layer) { return fmt::format("L{:02}", layer); }

// What a port of an attention shard is called where several layers share a shard: each layer has
// caches, histories and new rows of its own (k_state_L03), layers that see the same keys share a
// mask (attn_mask_w128 with a window, attn_mask_c8192 with chunks, else attn_mask; a window tells
// how far ahead they see), and all share rope_cos, rope_sin and query_scale.
inline std::string port_among_layers(const std::string& port, int64_t layer,
                                     const LayerConfig& config) {
  if (port == kMaskPort)
    return port + (config.window == 0 ? "" : fmt::format("_w{}", config.window)) +
           (config.chunk == 0 ? "" : fmt::format("_c{}", config.chunk));
  if (port == kKeyState || port == kValueState || port == kNewKeys || port == kNewValues ||
      port == kHistoryPort || port == kNewHistory)
    return fmt::format("{}_{}", port, layer_label(layer));
  return port;
}

}  // namespace moec
