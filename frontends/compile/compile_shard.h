// Compiles one shard of a plan from its model form to `placed`, for every token width.
#pragma once

#include <functional>
#include <vector>

#include "backends/emit/emit.h"
#include "ir/analysis/cost.h"
#include "ir/model/plan.h"
#include "models/plan/shard_sizes.h"
#include "models/tensors/fold_scales.h"
#include "passes/pipeline.h"

namespace moec {

// Of a shard whose layers take so many experts.
struct CompiledForm {
  std::vector<int64_t> top_k;  // by the shard's MoE layers; empty: as the model has it
  std::string label;           // top_k_label(); empty where the shard has no other form
};

struct CompiledShard {
  // In form `placed`: for the first of `forms` parallel to plan.build.tokens, then for the next.
  std::vector<Shard> widths;
  std::vector<CompiledForm> forms;  // at least one; the plan's default first
  std::vector<PassReport> passes;   // of the widest width
  // Of the model form at the narrowest width, for each token: with the first of the plan's numbers
  // of experts that tokens take, and with each of plan.build.experts.top_k.
  ShardCost cost;
  std::vector<ShardCost> costs;
  std::optional<Router> router;  // where the shard routes, of the first form
  Diagnostics notes;             // without repetitions by further widths
};

// What the graphs of shard `index` are, in the order of CompiledShard::widths.
std::vector<GraphKey> graph_keys(const Plan& plan, size_t index);

// Builds and compiles shard `index` once for each width and form of top-k, with `folds` moved and
// its weights in the forms of plan.build.weights. Errors: those of build_shard() and
// run_pipeline().
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
