// A guess at what tokens will choose of the next layer before it runs: its router, applied to what
// the router of this layer took. The residual stream changes little from layer to layer.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "backends/manifest/manifest.h"
#include "backends/runtime/session/chunk.h"

namespace moec {

struct RouterAhead {
  const manifest::Step* step = nullptr;
  std::map<std::string, std::string> edges;  // that its ports get in place of their own
};

// The next router behind the step, with edges that the chunk has. Nothing where no router follows,
// or where it takes more than the one before the step did.
std::optional<RouterAhead> router_behind(const Manifest& manifest, size_t step, const Chunk& chunk);

}  // namespace moec
