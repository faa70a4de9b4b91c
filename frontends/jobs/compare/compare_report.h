// What a comparison of two exports found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session/capacity_drops.h"
#include "frontends/measure/compare_metrics.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_id.h"

namespace moec {

// A shard of the compared export on the inputs that the reference's shard had.
struct ComparedShard {
  std::string shard;
  ValueComparison output;
  std::optional<ValueComparison> cache;  // its new rows of keys and values, where it has any
};

// The router of a layer, each export on its own inputs.
struct ComparedRouter {
  int64_t layer = 0;
  RoutingComparison routing;
};

// An expert of the compared export on the inputs of the reference's shard.
struct ComparedExpert {
  ExpertId id;
  uint64_t tokens = 0;  // that chose it in the reference; with none, `output` says nothing
  Comparison output;
};

struct CompareReport {
  int64_t window = 0, windows = 0;
  int64_t unused_tokens = 0;           // behind the last window
  bool bytes = false;                  // a token is a byte
  std::string top_k;                   // describe_top_k() of the compared one
  std::optional<CapacityDrops> drops;  // of a compared one with a capacity
  PredictionComparison predictions;
  // In schedule order; empty where the exports are cut into other shards.
  std::vector<ComparedShard> shards;
  // By layer, then by expert; of those whose outputs both graphs still show.
  std::vector<ComparedExpert> experts;
  // Of the layers whose routing weights both graphs still show.
  std::vector<ComparedRouter> routers;
  Diagnostics findings;  // what was missed, and what could not be compared
  bool passed = false;   // no finding is an error
};

// What a comparison must reach; nothing: it is not required.
struct CompareLimits {
  std::optional<double> max_kl;    // nats, of the mean
  std::optional<double> min_top1;  // a fraction
};

// Adds a finding compare.threshold for each limit that is missed, and compare.nonfinite where
// logits are NaN or infinite; sets `passed`.
void judge(const CompareLimits& limits, CompareReport& report);

}  // namespace moec
