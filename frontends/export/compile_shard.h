// Compiles one shard of a plan from its model form to `placed`, for every token width.
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
  std::vector<Shard> widths;       // in form `placed`, parallel to plan.build.tokens
  std::vector<PassReport> passes;  // of the widest width
  ShardCost cost;                  // of the model form at the narrowest width, for each token
  std::optional<Router> router;    // where the shard routes
  Diagnostics notes;               // without repetitions by further widths
};

// Builds and compiles shard `index` once for each width. Errors: those of build_shard() and
// run_pipeline().
Result<CompiledShard> compile_shard(const Plan& plan, size_t index, const PassOptions& options,
                                    const RunOptions& run);

// The same, but all widths have the same ops, as one program for a range of widths needs. Further
// error width.structure (ir/analysis/at_width.h).
Result<CompiledShard> compile_for_range(const Plan& plan, size_t index, const PassOptions& options,
                                        const RunOptions& run);

// The peak of activation bytes (ir/analysis/cost.h) of shard `index`, compiled for the widest
// width.
Result<int64_t> compiled_peak(const Plan& plan, size_t index, const PassOptions& options,
                              const RunOptions& run);

// Checks the weights of norms and routers, where a single NaN or infinity makes every token's
// output NaN. `shard` is in model form. `finite` holds the text of views that were checked before;
// those that are checked now are added. Error export.nonfinite_weight names the tensor.
Status check_finite_weights(const Shard& shard, const WeightReader& reader,
                            std::set<std::string>& finite);

}  // namespace moec
