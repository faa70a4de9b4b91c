#include "frontends/export/compile_shard.h"

#include <algorithm>

#include "ir/analysis/at_width.h"
#include "models/build/build_shard.h"
#include "models/tensors/seeded_weights.h"

namespace moec {
namespace {

std::optional<Router> find_router(const Shard& shard) {
  for (const Op& op : shard.ops)
    if (const auto* router = std::get_if<Router>(&op.data)) return *router;
  return std::nullopt;
}

ShardCost per_token(ShardCost cost, int64_t tokens) {
  cost.macs_dense /= tokens;
  cost.macs_active /= tokens;
  return cost;
}

// Runs the pipeline for one width after the other and collects the reports in `compiled`.
class Compiler {
 public:
  Compiler(const Plan& plan, size_t index, const PassOptions& options, const RunOptions& run,
           const ScaleFolds& folds, CompiledShard& compiled)
      : plan_(plan),
        index_(index),
        options_(options),
        run_(run),
        folds_(folds),
        compiled_(compiled) {}

  Result<Shard> compile(int64_t tokens) {
    MOEC_ASSIGN(Shard model, build_shard(plan_, index_, tokens));
    if (plan_.weight_seed) model = with_seeded_weights(std::move(model), *plan_.weight_seed);
    model = with_folded_scales(std::move(model), folds_);
    if (compiled_.passes.empty()) describe(model, tokens);
    PassContext context{options_, {}};
    MOEC_ASSIGN(PipelineResult result,
                run_pipeline(model, default_pipeline(options_), context, run_));
    for (Diagnostic& note : context.notes)
      if (std::find(compiled_.notes.begin(), compiled_.notes.end(), note) == compiled_.notes.end())
        compiled_.notes.push_back(std::move(note));
    compiled_.passes = std::move(result.passes);
    return std::move(result.shard);
  }

 private:
  void describe(const Shard& model, int64_t tokens) {
    const MoeConfig& moe = plan_.model.moe;
    compiled_.router = find_router(model);
    compiled_.cost = per_token(count_cost(model, std::max<int64_t>(moe.routing.top_k, 1),
                                          std::max<int64_t>(moe.experts, 1)),
                               tokens);
  }

  const Plan& plan_;
  size_t index_;
  const PassOptions& options_;
  const RunOptions& run_;
  const ScaleFolds& folds_;
  CompiledShard& compiled_;
};

}  // namespace

Result<CompiledShard> compile_shard(const Plan& plan, size_t index, const PassOptions& options,
                                    const RunOptions& run, const ScaleFolds& folds) {
  CompiledShard compiled;
  Compiler compiler(plan, index, options, run, folds, compiled);
  for (int64_t tokens : plan.build.tokens) {
    MOEC_ASSIGN(Shard shard, compiler.compile(tokens));
    compiled.widths.push_back(std::move(shard));
  }
  return compiled;
}

Result<CompiledShard> compile_for_range(const Plan& plan, size_t index, const PassOptions& options,
                                        const RunOptions& run, const ScaleFolds& folds) {
  // Two compiled widths show which sizes depend on the width, and all others follow from them
  // (ir/analysis/at_width.h). One token is not taken for them: sizes of 1 let the passes simplify
  // its shard further than those of all other widths.
  const int64_t largest = std::max<int64_t>(plan.build.tokens.back(), 2);
  Plan samples = plan;
  samples.build.tokens = {largest, largest + 1};
  CompiledShard compiled;
  Compiler compiler(samples, index, options, run, folds, compiled);
  MOEC_ASSIGN(const Shard a, compiler.compile(largest));
  MOEC_ASSIGN(const Shard b, compiler.compile(largest + 1));
  for (int64_t tokens : plan.build.tokens) {
    MOEC_ASSIGN(Shard shard, at_width({largest, &a}, {largest + 1, &b}, tokens));
    compiled.widths.push_back(std::move(shard));
  }
  return compiled;
}

Result<int64_t> compiled_peak(const Plan& plan, size_t index, const PassOptions& options,
                              const RunOptions& run) {
  MOEC_ASSIGN(const Shard model, build_shard(plan, index, plan.build.tokens.back()));
  PassContext context{options, {}};
  MOEC_ASSIGN(const PipelineResult placed,
              run_pipeline(model, default_pipeline(options), context, run));
  return peak_activation_bytes(placed.shard);
}

}  // namespace moec
