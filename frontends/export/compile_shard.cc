#include "frontends/export/compile_shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/formats/format.h"
#include "ir/analysis/at_width.h"
#include "ir/analysis/find_experts.h"
#include "models/build/build_shard.h"
#include "models/build/weight_uses.h"
#include "models/tensors/seeded_weights.h"

namespace moec {
namespace {

std::optional<Router> find_router(const Shard& shard) {
  for (const Op& op : shard.ops)
    if (const auto* router = std::get_if<Router>(&op.data)) return *router;
  return std::nullopt;
}

// The options with the forms of the shard's weights. Noise takes the form of the tensor in whose
// place it stands.
PassOptions with_forms(PassOptions options, const Plan& plan, size_t index,
                       std::optional<uint64_t> weight_seed) {
  if (plan.build.weights.all_float()) return options;
  options.weights = weight_forms(plan, index);
  if (!weight_seed) return options;
  WeightForms seeded{options.weights.base, {}};
  for (const auto& [name, form] : options.weights.by_source) {
    const WeightView noise = seeded_weights(tensor_view(name, {DType::f32, {1}}), *weight_seed);
    const uint64_t seed = std::get<SeededSource>(noise.source).seed;
    seeded.by_source.emplace(fmt::format("seeded({})", seed), form);
  }
  options.weights = std::move(seeded);
  return options;
}

// The options of shard `index`: those of with_forms(), and what its routers may choose.
PassOptions shard_options(const PassOptions& options, const Plan& plan, size_t index,
                          std::optional<uint64_t> weight_seed) {
  PassOptions own = with_forms(options, plan, index, weight_seed);
  const MoeConfig& moe = plan.model.moe;
  if (routes(plan.shards[index].kind))
    own.kept_experts =
        kept_slots(plan.build.experts.mask, moe_layers_of(plan.model, plan.shards[index]),
                   moe.experts, moe.slots());
  return own;
}

// What a compiled shard reads of its weights, in bytes: all of them, and those of experts.
struct WeightBytes {
  int64_t all = 0, experts = 0;
};

WeightBytes count_weight_bytes(const Plan& plan, size_t index, const Shard& placed,
                               ShardFormat format) {
  const size_t layers = moe_layers_of(plan.model, plan.shards[index]).size();
  const auto roles = find_experts(placed, plan.model.moe.experts, layers);
  const CodeFormOf form = format_of(format).code_form;
  return {weight_bytes(placed, form), expert_weight_bytes(placed, roles, form)};
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
        options_(shard_options(options, plan, index, plan.weight_seed)),
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
    if (compiled_.passes.empty() && !plan_.build.weights.all_float()) count_bytes(result.shard);
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

  // The model form has no encoded weights yet.
  void count_bytes(const Shard& placed) {
    const MoeConfig& moe = plan_.model.moe;
    const auto [all, experts] = count_weight_bytes(plan_, index_, placed, options_.target.format);
    compiled_.cost.bytes_dense = all;
    compiled_.cost.bytes_active =
        all - experts +
        experts * std::max<int64_t>(moe.routing.top_k, 1) / std::max<int64_t>(moe.experts, 1);
  }

  const Plan& plan_;
  size_t index_;
  const PassOptions options_;
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

Result<CompiledSize> compiled_size(const Plan& plan, size_t index, const PassOptions& options,
                                   const RunOptions& run,
                                   const std::function<void(const Shard&)>& visit) {
  MOEC_ASSIGN(const Shard model, build_shard(plan, index, plan.build.tokens.back()));
  PassContext context{shard_options(options, plan, index, std::nullopt), {}};
  MOEC_ASSIGN(const PipelineResult placed,
              run_pipeline(model, default_pipeline(context.options), context, run));
  if (visit) visit(placed.shard);
  const auto [weights, experts] =
      count_weight_bytes(plan, index, placed.shard, options.target.format);
  return CompiledSize{peak_activation_bytes(placed.shard), weights, experts};
}

}  // namespace moec
