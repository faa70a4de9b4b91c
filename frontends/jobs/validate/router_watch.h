// Records the values inside a router while its shard runs, and compares the experts that it chose
// with the golden ones.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "backends/runtime/session/session.h"
#include "frontends/measure/golden.h"
#include "frontends/measure/metrics.h"
#include "ir/analysis/find_experts.h"

namespace moec {

// The name that shard builders give to a router's logits; its weights are named kRoutingWeights. In
// a shard of several layers the names begin with "L03.".
inline constexpr std::string_view kRouterLogits = "router";

// Tokens begin … begin + count - 1 of a golden step.
struct GoldenTokens {
  const Golden& golden;
  const std::string& step;
  int64_t begin = 0, count = 0;
};

class RouterWatch {
 public:
  // The probe to run the shard with; empty for a shard without a router. It refers to this object.
  StepProbe probe(const manifest::Shard& shard);

  // Adds the tokens to `comparer`, for each MoE layer of the shard. Errors: validate.no_router
  // where the shard's graph has no values of the names above; golden.missing.
  Status compare(const GoldenTokens& tokens, const manifest::Shard& shard,
                 RouterComparer& comparer) const;

 private:
  Status compare_layer(const GoldenTokens& tokens, const manifest::Shard& shard, int64_t layer,
                       RouterComparer& comparer) const;

  std::map<std::string, Tensor, std::less<>> seen_;  // by name
};

}  // namespace moec
