// Result of comparing two exports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session/capacity_drops.h"
#include "frontends/measure/compare_metrics.h"
#include "frontends/measure/value_errors.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_id.h"

namespace moec {

// A shard of the compared export, run on the inputs of the reference's shard.
struct ComparedShard {
  std::string shard;
  ValueComparison output;
  std::optional<ValueComparison> cache;  // new rows of keys and values, if any
};

// The routers of a layer; each export runs on its own inputs.
struct ComparedRouter {
  int64_t layer = 0;
  RoutingComparison routing;
};

// An expert of the compared export, run on the inputs of the reference's shard.
struct ComparedExpert {
  ExpertId id;
  uint64_t tokens = 0;  // tokens that picked the expert in the reference; 0: `output` is invalid
  Comparison output;
};

struct CompareReport {
  int64_t window = 0, windows = 0;
  int64_t unused_tokens = 0;           // after the last window
  bool bytes = false;                  // tokens are bytes
  std::string top_k;                   // describe_top_k() of the compared export
  std::optional<CapacityDrops> drops;  // set if the compared export has a capacity
  PredictionComparison predictions;
  // In schedule order; empty if the exports are cut into different shards.
  std::vector<ComparedShard> shards;
  // By layer, then by expert; only experts whose outputs both graphs name.
  std::vector<ComparedExpert> experts;
  // Layers whose routing weights both graphs name.
  std::vector<ComparedRouter> routers;
  // Values inside shards of the compared export, on the inputs of the reference's shard; empty
  // unless requested.
  ValueErrors inside;
  Diagnostics findings;  // missed thresholds, and notes about missing comparisons
  bool passed = false;   // true if no finding is an error
};

// Thresholds of a comparison. An absent threshold is not checked.
struct CompareLimits {
  std::optional<double> max_kl;    // mean KL in nats
  std::optional<double> min_top1;  // fraction
};

// Adds a finding compare.threshold per missed limit, and compare.nonfinite if logits are NaN or
// infinite. Sets `passed`.
void judge(const CompareLimits& limits, CompareReport& report);

}  // namespace moec
