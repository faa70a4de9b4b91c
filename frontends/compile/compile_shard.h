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

// A shard compiled for one top-k variant.
struct CompiledForm {
  std::vector<int64_t> top_k;  // per MoE layer of the shard; empty: the model's own top-k
  std::string label;           // top_k_label(); empty if the shard has a single variant
};

struct CompiledShard {
  // Graphs in form `placed`: all widths of plan.build.tokens for the first of `forms`, then for the
  // next.
  std::vector<Shard> widths;
  std::vector<CompiledForm> forms;  // top-k variants, at least one; the plan's default is first
  std::vector<PassReport> passes;   // of the last width of the default variant
  // Costs per token at the first width: `cost` with the plan's default top-k, `costs` with each
  // variant of plan.build.experts.top_k. If weights are quantized, bytes are those of the placed
  // shard.
  ShardCost cost;
  std::vector<ShardCost> costs;
  std::optional<Router> router;  // of the first variant; absent if the shard does not route
  Diagnostics notes;             // of all widths, without duplicates
};

// Returns one key per graph of shard `index`, in the order of CompiledShard::widths.
std::vector<GraphKey> graph_keys(const Plan& plan, size_t index);

// Builds and compiles shard `index` once for each width and top-k variant. Applies `folds` to the
// weights and quantizes them according to plan.build.weights. Errors: those of build_shard(),
// run_pipeline() and check_owners().
Result<CompiledShard> compile_shard(const Plan& plan, size_t index, const PassOptions& options,
                                    const RunOptions& run, const ScaleFolds& folds = {});

// Like compile_shard(), but all widths have the same ops, which a single program for a range of
// widths requires. Further error: width.structure (ir/analysis/at_width.h).
Result<CompiledShard> compile_for_range(const Plan& plan, size_t index, const PassOptions& options,
                                        const RunOptions& run, const ScaleFolds& folds = {});

// Measures shard `index`, compiled for the largest width with the checkpoint's weights, even if the
// plan has a weight seed. Calls `visit` with the compiled shard unless `visit` is empty.
Result<CompiledSize> compiled_size(const Plan& plan, size_t index, const PassOptions& options,
                                   const RunOptions& run,
                                   const std::function<void(const Shard&)>& visit = {});

}  // namespace moec
