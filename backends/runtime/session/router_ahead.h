// Predicts the experts of the next MoE layer by applying its router to the input of the current
// layer's router. This works because the residual stream changes little from layer to layer.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "backends/manifest/manifest.h"
#include "backends/runtime/session/chunk.h"

namespace moec {

struct RouterAhead {
  const manifest::Step* step = nullptr;
  std::map<std::string, std::string> edges;  // port → edge that replaces the port's own edge
};

// Returns the first router after `step`, bound to the input edges of the latest router up to
// `step`. Absent if there is no such router, or if the latest router has no edge for an input port
// of the next one.
std::optional<RouterAhead> router_behind(const Manifest& manifest, size_t step, const Chunk& chunk);

}  // namespace moec
