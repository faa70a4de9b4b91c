// Measures the weights, the work and the memory of each shard of a plan.
#pragma once

#include <functional>
#include <vector>

#include "ir/plan/plan.h"

namespace moec {

struct ShardSize {
  int64_t weights = 0;                // elements
  int64_t macs = 0;                   // multiply-adds per token: model form, narrowest width
  int64_t macs_active = 0;            // the same with the chosen experts only
  int64_t cache_bytes = 0;            // the KV cache that it holds or takes as inputs
  int64_t peak_activation_bytes = 0;  // ir/analysis/cost.h: compiled form, widest width
  bool operator==(const ShardSize&) const = default;
};

// Returns the peak activation bytes of plan.shards[index]. The caller supplies it because compiling
// a shard takes passes, which this folder may not include.
using MeasurePeak = std::function<Result<int64_t>(size_t)>;

// Returns one size for each of plan.shards. Shards that differ only in the numbers of their layer,
// experts or vocabulary rows have the same size, so one of each such set is built and measured.
// A first or last layer is measured by itself where the model builds it otherwise.
// Errors: those of build_shard and `peak`.
Result<std::vector<ShardSize>> measure_shards(const Plan& plan, const MeasurePeak& peak);

}  // namespace moec
