// Plans that the norms of a model rule out.
#pragma once

#include "ir/model/plan.h"

namespace moec {

// True if no shard could add a layer's experts to the residual stream: with host routing, a norm
// applies to the sum of all groups, and the shard of the shared expert adds it.
inline bool lacks_last_part(const ModelConfig& model, const BuildOptions& options) {
  return options.host_routing && model.norms_feed_forward() && model.moe.shared_ff == 0;
}

}  // namespace moec
