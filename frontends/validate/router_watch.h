// Looks into a routing shard while it runs, and compares what it chose with the golden choice.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "backends/runtime/session.h"
#include "frontends/validate/golden.h"
#include "frontends/validate/metrics.h"
#include "ir/analysis/find_experts.h"

namespace moec {

// The name that shard builders give to a router's logits; that of the weights which it makes is
// kRoutingWeights. In a shard of several layers, "L03." stands in front.
inline constexpr std::string_view kRouterLogits = "router";

class RouterWatch {
 public:
  // Empty for a shard that routes nothing.
  StepProbe probe(const manifest::Shard& shard);

  // Tokens [begin, begin + count) of a golden step, for each MoE layer of the shard. Error
  // validate.no_router when the shard's graph has no values of the names above.
  Status compare(const Golden& golden, const std::string& step, const manifest::Shard& shard,
                 int64_t begin, int64_t count, RouterComparer& comparer) const;

 private:
  Status compare_layer(const Golden& golden, const std::string& step, const manifest::Shard& shard,
                       int64_t layer, int64_t begin, int64_t count, RouterComparer& comparer) const;

  std::map<std::string, Tensor, std::less<>> seen_;  // by name
};

}  // namespace moec
