#include "frontends/export/compile_shard.h"

#include <fmt/format.h>

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

// The operands of `op` whose weights must be finite: those of norms, and what the logits of a
// router are computed from. A NaN or infinity in an expert's weights spoils the tokens that choose
// it; in one of these it spoils every token, so the export stops.
std::vector<ValueId> sensitive_operands(const Shard& shard, const Op& op) {
  if (std::holds_alternative<RmsNorm>(op.data)) return {op.operands[1]};
  if (std::holds_alternative<Router>(op.data)) {
    std::vector<ValueId> values(op.operands.begin() + 1, op.operands.end());
    if (shard.producer_as<Linear>(op.operands[0])) {
      const Op& linear = shard.ops[shard.values[op.operands[0]].producer];
      values.insert(values.end(), linear.operands.begin() + 1, linear.operands.end());
    }
    return values;
  }
  if (const auto* attention = std::get_if<Attention>(&op.data);
      attention && attention->qk_norm != QkNorm::none)
    return op.operands;  // only the norms among them are weights
  return {};
}

// Runs the pipeline for one width after the other and collects the reports in `compiled`.
class Compiler {
 public:
  Compiler(const Plan& plan, size_t index, const PassOptions& options, const RunOptions& run,
           CompiledShard& compiled)
      : plan_(plan), index_(index), options_(options), run_(run), compiled_(compiled) {}

  Result<Shard> compile(int64_t tokens) {
    MOEC_ASSIGN(Shard model, build_shard(plan_, index_, tokens));
    if (plan_.weight_seed) model = with_seeded_weights(std::move(model), *plan_.weight_seed);
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
  CompiledShard& compiled_;
};

}  // namespace

Result<CompiledShard> compile_shard(const Plan& plan, size_t index, const PassOptions& options,
                                    const RunOptions& run) {
  CompiledShard compiled;
  Compiler compiler(plan, index, options, run, compiled);
  for (int64_t tokens : plan.build.tokens) {
    MOEC_ASSIGN(Shard shard, compiler.compile(tokens));
    compiled.widths.push_back(std::move(shard));
  }
  return compiled;
}

Result<CompiledShard> compile_for_range(const Plan& plan, size_t index, const PassOptions& options,
                                        const RunOptions& run) {
  // Two compiled widths show which sizes depend on the width, and all others follow from them
  // (ir/analysis/at_width.h). One token is not taken for them: sizes of 1 let the passes simplify
  // its shard further than those of all other widths.
  const int64_t largest = std::max<int64_t>(plan.build.tokens.back(), 2);
  Plan samples = plan;
  samples.build.tokens = {largest, largest + 1};
  CompiledShard compiled;
  Compiler compiler(samples, index, options, run, compiled);
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

Status check_finite_weights(const Shard& shard, const WeightReader& reader,
                            std::set<std::string>& finite) {
  for (const Op& op : shard.ops)
    for (ValueId operand : sensitive_operands(shard, op)) {
      const auto* weight = shard.producer_as<Weight>(operand);
      if (!weight || !finite.insert(to_string(weight->view)).second) continue;
      MOEC_ASSIGN(uint64_t bad, reader.count_nonfinite(weight->view));
      if (bad == 0) continue;
      std::string tensor;
      for_each_tensor(weight->view,
                      [&](const TensorSource& source, const Type&) { tensor = source.name; });
      return fail("export.nonfinite_weight",
                  fmt::format("{} of its values are NaN or infinite", bad),
                  "the checkpoint is damaged: download the file again",
                  {.shard = shard.name, .tensor = tensor});
    }
  return {};
}

}  // namespace moec
