// The ports of a shard of several layers.
#pragma once

#include <fmt/format.h>

#include <string>

#include "ir/plan.h"

namespace moec {

// "L03": in front of the names of a layer's values.
inline std::string layer_label(int64_t layer) { return fmt::format("L{:02}", layer); }

// What a port of an attention shard is called where several layers share a shard: each layer has
// caches and new rows of its own (k_state_L03), layers of one window share a mask (attn_mask_w128;
// attn_mask without a window), and all share rope_cos and rope_sin.
inline std::string port_among_layers(const std::string& port, int64_t layer, int64_t window) {
  if (port == kMaskPort) return window == 0 ? port : fmt::format("{}_w{}", port, window);
  if (port == kKeyState || port == kValueState || port == kNewKeys || port == kNewValues)
    return fmt::format("{}_{}", port, layer_label(layer));
  return port;
}

}  // namespace moec
