// Compiles one shard of a plan from its model form to `placed`, for every token width.
#pragma once

#include <functional>
#include <vector>

#include "ir/analysis/cost.h"
#include "ir/plan/plan.h"
#include "models/plan/shard_sizes.h"
#include "models/tensors/fold_scales.h"
#include "passes/pipeline.h"

namespace moec {

struct CompiledShard {
  std::vector<Shard> widths;       // in form `placed`, parallel to plan.build.tokens
  std::vector<PassReport> passes;  // of the widest width
  ShardCost cost;                  // of the model form at the narrowest width, for each token
  std::optional<Router> router;    // where the shard routes
  Diagnostics notes;               // without repetitions by further widths
};

// Builds and compiles shard `index` once for each width, with `folds` moved and its weights in the
// forms of plan.build.weights. Errors: those of build_shard() and run_pipeline().
Result<CompiledShard> compile_shard(const Plan& plan, size_t index, const PassOptions& options,
                                    const RunOptions& run, const ScaleFolds& folds = {});

// The same, but all widths have the same ops, as one program for a range of widths needs. Further
// error width.structure (ir/analysis/at_width.h).
Result<CompiledShard> compile_for_range(const Plan& plan, size_t index, const PassOptions& options,
                                        const RunOptions& run, const ScaleFolds& folds = {});

// Measures shard `index`, compiled for the widest width. Its weights are not replaced by noise.
// `visit`, where given, sees the compiled shard.
Result<CompiledSize> compiled_size(const Plan& plan, size_t index, const PassOptions& options,
                                   const RunOptions& run,
                                   const std::function<void(const Shard&)>& visit = {});

}  // namespace moec
