// One shard of a plan, from the plan to `placed`, for every token width.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "backends/weights/weight_reader.h"
#include "ir/analysis/cost.h"
#include "ir/plan/plan.h"
#include "passes/pipeline.h"

namespace moec {

struct CompiledShard {
  std::vector<Shard> widths;       // placed, one for each of plan.build.tokens
  std::vector<PassReport> passes;  // of the widest
  ShardCost cost;                  // of the model form at the narrowest width, per token
  std::optional<Router> router;    // of a shard that routes
  Diagnostics notes;               // each once, whatever the number of widths
};

Result<CompiledShard> compile_shard(const Plan& plan, size_t index, const PassOptions& options,
                                    const RunOptions& run);

// The same, with the same ops at every width, as one program for a range of widths needs. Error
// width.structure: ir/analysis/at_width.h.
Result<CompiledShard> compile_for_range(const Plan& plan, size_t index, const PassOptions& options,
                                        const RunOptions& run);

// Of shard `index`: the most bytes of activations that it holds at once (ir/analysis/cost.h),
// compiled for the widest step.
Result<int64_t> compiled_peak(const Plan& plan, size_t index, const PassOptions& options,
                              const RunOptions& run);

// NaN or infinity in a norm's or a router's weights makes every token's output NaN: an error
// "export.nonfinite_weight" that names the tensor. `shard` is in model form. Views whose text is in
// `finite` are known to be fine; those that are found so are added.
Status check_finite_weights(const Shard& shard, const WeightReader& reader,
                            std::set<std::string>& finite);

}  // namespace moec
