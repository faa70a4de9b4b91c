// Measures the weights, the work and the memory of each shard of a plan.
#pragma once

#include <functional>
#include <vector>

#include "ir/model/plan.h"

namespace moec {

struct ShardSize {
  int64_t weights = 0;                // elements
  int64_t weight_bytes = 0;           // of them, as the shard stores them
  int64_t expert_bytes = 0;           // of these, those of routed experts
  int64_t macs = 0;                   // multiply-adds per token: model form, narrowest width
  int64_t macs_active = 0;            // the same with the chosen experts only
  int64_t cache_bytes = 0;            // the KV cache that it holds or takes as inputs
  int64_t peak_activation_bytes = 0;  // ir/analysis/cost.h: compiled form, widest width
  bool operator==(const ShardSize&) const = default;
};

// What is known of a shard when it is compiled.
struct CompiledSize {
  int64_t peak_activation_bytes = 0;           // ir/analysis/cost.h
  int64_t weight_bytes = 0, expert_bytes = 0;  // only read where weights are stored in few bits
};

// Measures plan.shards[index]. The caller supplies it because compiling a shard takes passes, which
// this folder may not include.
using MeasureCompiled = std::function<Result<CompiledSize>(size_t)>;

// Returns one size for each of plan.shards. Shards that differ only in the numbers of their layer,
// experts or vocabulary rows have the same size, so one of each such set is built and measured.
// A first or last layer is measured by itself where the model builds it otherwise.
// Errors: those of build_shard and `compiled`.
Result<std::vector<ShardSize>> measure_shards(const Plan& plan, const MeasureCompiled& compiled);

}  // namespace moec
