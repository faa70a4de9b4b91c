// What each shard of a plan weighs and costs.
#pragma once

#include <functional>
#include <vector>

#include "ir/plan/plan.h"

namespace moec {

struct ShardSize {
  int64_t weights = 0;                // elements
  int64_t macs = 0;                   // multiply-adds a token, model form, at the narrowest width
  int64_t macs_active = 0;            // of these with the chosen experts only
  int64_t cache_bytes = 0;            // the KV cache that it holds or is given
  int64_t peak_activation_bytes = 0;  // ir/analysis/cost.h, of the compiled shard at its widest
  bool operator==(const ShardSize&) const = default;
};

// The peak of one shard, by its index: what compiles a shard is not known here.
using MeasurePeak = std::function<Result<int64_t>(size_t)>;

// By index of plan.shards. Shards that differ in nothing but the layer and the numbers of their
// experts or tokens have the same size; one of each such set is built and measured. Errors: those
// of build_shard and `peak`.
Result<std::vector<ShardSize>> measure_shards(const Plan& plan, const MeasurePeak& peak);

}  // namespace moec
