// Records a router's values while its shard runs, and compares the picked experts with the
// golden's.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "backends/runtime/session/session.h"
#include "frontends/measure/golden.h"
#include "frontends/measure/metrics.h"
#include "ir/analysis/find_experts.h"

namespace moec {

// Name of a router's logits in graphs; its routing weights are named kRoutingWeights. In a shard of
// several layers the names have a prefix such as "L03.".
inline constexpr std::string_view kRouterLogits = "router";

// Tokens begin … begin + count - 1 of a golden step.
struct GoldenTokens {
  const Golden& golden;
  const std::string& step;
  int64_t begin = 0, count = 0;
};

class RouterWatch {
 public:
  // Returns a probe for running the shard; empty for a shard without a router. The probe must not
  // outlive this object.
  StepProbe probe(const manifest::Shard& shard);

  // Adds the tokens to `comparer`, for each MoE layer of the shard. Errors: validate.no_router (the
  // shard's graph has no values with the names above), golden.missing.
  Status compare(const GoldenTokens& tokens, const manifest::Shard& shard,
                 RouterComparer& comparer) const;

  // Returns the label of a layer's routing weights in a shard's graph, and the value of a label
  // that the graph has.
  static std::string weights_label(const manifest::Shard& shard, int64_t layer);
  const Tensor& value(const std::string& label) const { return seen_.at(label); }

 private:
  Status compare_layer(const GoldenTokens& tokens, const manifest::Shard& shard, int64_t layer,
                       RouterComparer& comparer) const;

  std::map<std::string, Tensor, std::less<>> seen_;  // by name
};

}  // namespace moec
