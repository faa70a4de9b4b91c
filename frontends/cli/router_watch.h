// Looks into a routing shard while it runs, and compares what it chose with the golden choice.
#pragma once

#include "frontends/cli/golden.h"
#include "frontends/cli/metrics.h"
#include "frontends/cli/session.h"
#include "ir/find_experts.h"

namespace moec {

// The name that shard builders give to a router's logits; that of the weights which it makes is
// kRoutingWeights.
inline constexpr std::string_view kRouterLogits = "router";

class RouterWatch {
 public:
  // Empty for a shard that routes nothing.
  StepProbe probe(const manifest::Shard& shard);

  // Tokens [begin, begin + count) of a golden step. Error validate.no_router when the shard's graph
  // has no values of the names above.
  Status compare(const Golden& golden, const std::string& step, const manifest::Shard& shard,
                 int64_t begin, int64_t count, RouterComparer& comparer) const;

 private:
  Tensor logits_, weights_;
};

}  // namespace moec
