// Measures the weights, the work and the memory of each shard of a plan.
#pragma once

#include <functional>
#include <vector>

#include "ir/model/plan.h"

namespace moec {

struct ShardSize {
  int64_t weights = 0;                // elements
  int64_t weight_bytes = 0;           // bytes of all weights, as stored in the shard
  int64_t expert_bytes = 0;           // bytes of routed experts, included in weight_bytes
  int64_t macs = 0;                   // multiply-adds per token: model form, narrowest width
  int64_t macs_active = 0;            // as macs, with the chosen experts only
  int64_t cache_bytes = 0;            // KV cache that the shard stores or reads as inputs
  int64_t state_bytes = 0;            // part of cache_bytes: histories and recurrent states
  int64_t peak_activation_bytes = 0;  // ir/analysis/cost.h: compiled form, widest width
  size_t measured = 0;                // index of the shard that was measured for this size
  bool operator==(const ShardSize&) const = default;
};

// Sizes of a compiled shard.
struct CompiledSize {
  int64_t peak_activation_bytes = 0;           // ir/analysis/cost.h
  int64_t weight_bytes = 0, expert_bytes = 0;  // used only if weights are quantized
};

// Measures plan.shards[index]. A callback, because compiling a shard needs passes, which this
// folder must not include.
using MeasureCompiled = std::function<Result<CompiledSize>(size_t)>;

// Returns one size per shard of the plan. Shards that differ only in the numbers of their layer,
// experts or vocabulary rows have the same size, so only one of each such set is built and
// measured. A first or last layer is measured separately if the model builds it differently.
// Errors: those of build_shard and `compiled`.
Result<std::vector<ShardSize>> measure_shards(const Plan& plan, const MeasureCompiled& compiled);

}  // namespace moec
