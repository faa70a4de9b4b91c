#include "frontends/compile/compile_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "backends/formats/format.h"
#include "frontends/compile/check_owners.h"
#include "ir/analysis/at_width.h"
#include "ir/analysis/find_experts.h"
#include "ir/base/invariant.h"
#include "ir/model/model_experts.h"
#include "models/shards/build_shard.h"
#include "models/shards/weight_uses.h"
#include "models/tensors/seeded_weights.h"

namespace moec {
namespace {

std::optional<Router> find_router(const Shard& shard) {
  for (const Op& op : shard.ops)
    if (const auto* router = std::get_if<Router>(&op.data)) return *router;
  return std::nullopt;
}

// Returns the options with the weight forms of the shard. Random weights have the form of the
// tensor that they replace.
PassOptions with_forms(PassOptions options, const Plan& plan, size_t index,
                       std::optional<uint64_t> weight_seed) {
  if (plan.build.weights.all_float()) return options;
  options.weights = weight_forms(plan, index);
  if (!weight_seed) return options;
  WeightForms seeded{options.weights.base, {}};
  // seeded_weights() derives the seed of a tensor from its name, so the forms are keyed by these
  // seeds. The type of the view does not affect the seed.
  for (const auto& [name, form] : options.weights.by_source) {
    const WeightView noise = seeded_weights(tensor_view(name, {DType::f32, {1}}), *weight_seed);
    const uint64_t seed = std::get<SeededSource>(noise.source).seed;
    seeded.by_source.emplace(fmt::format("seeded({})", seed), form);
  }
  options.weights = std::move(seeded);
  return options;
}

// Returns the options of with_forms(), plus the experts that the shard's routers can select.
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

// Bytes of a compiled shard's weights, and of the expert weights among them.
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

// Returns the top-k variants of the plan that have different graphs for this shard; a single null
// pointer if the shard has one graph, with the model's own top-k.
std::vector<const TopKVariant*> forms_of(const Plan& plan, size_t index) {
  const std::vector<TopKVariant>& all = plan.build.experts.top_k;
  // Shards without a router have the same graph in every variant.
  if (all.empty() || !routes(plan.shards[index].kind)) return {nullptr};
  std::vector<const TopKVariant*> forms;
  for (const size_t i : distinct_forms(all, moe_layers_of(plan.model, plan.shards[index])))
    forms.push_back(&all[i]);
  return forms;
}

// Returns one entry per variant with a separate graph. The label distinguishes the files of the
// variants, so a single variant has none.
std::vector<CompiledForm> empty_forms(const Plan& plan, size_t index) {
  const std::vector<const TopKVariant*> forms = forms_of(plan, index);
  std::vector<CompiledForm> empty;
  for (const TopKVariant* form : forms) {
    CompiledForm& described = empty.emplace_back();
    if (form) described.top_k = form->of(moe_layers_of(plan.model, plan.shards[index]));
    if (forms.size() > 1) described.label = top_k_label(described.top_k);
  }
  return empty;
}

// Fraction chosen / all of a shard's experts that are active for a token.
struct ActiveShare {
  int64_t chosen = 1, all = 1;
  int64_t of(int64_t number) const { return number * chosen / all; }
};

// Returns the active share for the variant `form`; if null, for the model's own top-k.
ActiveShare active_share(const Plan& plan, size_t index, const TopKVariant* form) {
  const MoeConfig& moe = plan.model.moe;
  const std::vector<int64_t> layers = moe_layers_of(plan.model, plan.shards[index]);
  // If masked experts are dropped, a shard has one layer, and tokens choose among the others.
  const bool dropped = plan.build.experts.drop_masked && !layers.empty();
  // At least 1, because ActiveShare::of() divides by it and a dense model has 0 experts.
  const int64_t experts = std::max<int64_t>(
      dropped ? plan.build.experts.mask.count(layers.front(), expert_grid(plan.model))
              : moe.experts,
      1);
  if (!form || layers.empty()) return {std::max<int64_t>(moe.routing.top_k, 1), experts};
  const std::vector<int64_t> top_k = form->of(layers);
  // Layers of one shard may differ in top-k, so the share is a sum over its layers: Σ top_k /
  // (experts · layers).
  return {std::accumulate(top_k.begin(), top_k.end(), int64_t{0}), experts * std::ssize(layers)};
}

ShardCost per_token(ShardCost cost, int64_t tokens) {
  cost.macs_dense /= tokens;
  cost.macs_active /= tokens;
  return cost;
}

// Compiles a shard one width at a time and collects reports, costs and notes in `compiled`.
class Compiler {
  using Uses = std::map<std::string, WeightUse>;

 public:
  Compiler(const Plan& plan, size_t index, const PassOptions& options, const RunOptions& run,
           const ScaleFolds& folds, CompiledShard& compiled)
      : plan_(plan),
        index_(index),
        options_(shard_options(options, plan, index, plan.weight_seed)),
        run_(run),
        folds_(folds),
        // weight_uses() runs the builder of the shard. check_owners() needs the result only for MoE
        // layers.
        uses_(moe_layers_of(plan.model, plan.shards[index]).empty() ? Uses()
                                                                    : weight_uses(plan, index)),
        compiled_(compiled) {}

  Result<Shard> compile(int64_t tokens, const TopKVariant* form) {
    MOEC_ASSIGN(Shard model, build_shard(plan_, index_, tokens, form));
    if (plan_.weight_seed) model = with_seeded_weights(std::move(model), *plan_.weight_seed);
    model = with_folded_scales(std::move(model), folds_);
    // `passes` is empty only for the first width of the default variant. Costs are counted before
    // the passes, so they do not depend on the form of the ops.
    if (compiled_.passes.empty()) describe(model, tokens);
    PassContext context{options_, {}};
    MOEC_ASSIGN(PipelineResult result,
                run_pipeline(model, default_pipeline(options_), context, run_));
    for (Diagnostic& note : context.notes)
      if (std::find(compiled_.notes.begin(), compiled_.notes.end(), note) == compiled_.notes.end())
        compiled_.notes.push_back(std::move(note));
    MOEC_TRY(check_owners(plan_, index_, uses_, result.shard));
    if (compiled_.passes.empty() && !plan_.build.weights.all_float()) count_bytes(result.shard);
    if (!form || form == &plan_.build.experts.top_k.front())
      compiled_.passes = std::move(result.passes);
    return std::move(result.shard);
  }

 private:
  // Calls visit(share, cost) for the default top-k, then for each variant of the plan.
  template <class Visit>
  void for_each_cost(Visit visit) {
    const std::vector<TopKVariant>& forms = plan_.build.experts.top_k;
    visit(active_share(plan_, index_, forms.empty() ? nullptr : &forms.front()), compiled_.cost);
    compiled_.costs.resize(forms.size());
    for (size_t i = 0; i < forms.size(); ++i)
      visit(active_share(plan_, index_, &forms[i]), compiled_.costs[i]);
  }

  void describe(const Shard& model, int64_t tokens) {
    compiled_.router = find_router(model);
    for_each_cost([&](const ActiveShare& share, ShardCost& cost) {
      cost = per_token(count_cost(model, share.chosen, share.all), tokens);
    });
  }

  // Must run after the passes: weights in form `model` are not quantized yet.
  void count_bytes(const Shard& placed) {
    const WeightBytes bytes = count_weight_bytes(plan_, index_, placed, options_.target.format);
    for_each_cost([&](const ActiveShare& share, ShardCost& cost) {
      // Every token reads the weights outside of experts, and a share of the experts' weights.
      cost.bytes_dense = bytes.all;
      cost.bytes_active = bytes.all - bytes.experts + share.of(bytes.experts);
    });
  }

  const Plan& plan_;
  size_t index_;
  const PassOptions options_;
  const RunOptions& run_;
  const ScaleFolds& folds_;
  const Uses uses_;  // empty if the shard has no MoE layers
  CompiledShard& compiled_;
};

}  // namespace

std::vector<GraphKey> graph_keys(const Plan& plan, size_t index) {
  std::vector<GraphKey> keys;
  for (const CompiledForm& form : empty_forms(plan, index))
    for (const int64_t tokens : plan.build.tokens) keys.push_back({tokens, form.label});
  return keys;
}

Result<CompiledShard> compile_shard(const Plan& plan, size_t index, const PassOptions& options,
                                    const RunOptions& run, const ScaleFolds& folds) {
  CompiledShard compiled;
  compiled.forms = empty_forms(plan, index);
  Compiler compiler(plan, index, options, run, folds, compiled);
  // Variants are the outer loop. widths_of() and describe_widths() derive both indices from this
  // order.
  for (const TopKVariant* form : forms_of(plan, index))
    for (int64_t tokens : plan.build.tokens) {
      MOEC_ASSIGN(Shard shard, compiler.compile(tokens, form));
      compiled.widths.push_back(std::move(shard));
    }
  return compiled;
}

Result<CompiledShard> compile_for_range(const Plan& plan, size_t index, const PassOptions& options,
                                        const RunOptions& run, const ScaleFolds& folds) {
  // The differences between two compiled widths show which sizes depend on the width; all other
  // widths are derived from these two (ir/analysis/at_width.h). Width 1 is never compiled, because
  // sizes of 1 allow passes to simplify the shard more than at other widths.
  const int64_t largest = std::max<int64_t>(plan.build.tokens.back(), 2);
  Plan samples = plan;
  samples.build.tokens = {largest, largest + 1};
  CompiledShard compiled;
  compiled.forms = empty_forms(plan, index);
  // plan_top_k() refuses several variants for this packaging.
  MOEC_CHECK(compiled.forms.size() == 1, "a range of widths has {} forms", compiled.forms.size());
  Compiler compiler(samples, index, options, run, folds, compiled);
  MOEC_ASSIGN(const Shard a, compiler.compile(largest, nullptr));
  MOEC_ASSIGN(const Shard b, compiler.compile(largest + 1, nullptr));
  for (int64_t tokens : plan.build.tokens) {
    MOEC_ASSIGN(Shard shard, at_width({largest, &a}, {largest + 1, &b}, tokens));
    compiled.widths.push_back(std::move(shard));
  }
  return compiled;
}

Result<CompiledSize> compiled_size(const Plan& plan, size_t index, const PassOptions& options,
                                   const RunOptions& run,
                                   const std::function<void(const Shard&)>& visit) {
  // Widths ascend, and activations grow with the width, so the last width has the peak.
  MOEC_ASSIGN(const Shard model, build_shard(plan, index, plan.build.tokens.back()));
  // Omits the weight seed, because sizes do not depend on the values of the weights. with_forms()
  // then keys the forms by tensor name.
  PassContext context{shard_options(options, plan, index, std::nullopt), {}};
  MOEC_ASSIGN(const PipelineResult placed,
              run_pipeline(model, default_pipeline(context.options), context, run));
  if (visit) visit(placed.shard);
  const auto [weights, experts] =
      count_weight_bytes(plan, index, placed.shard, options.target.format);
  return CompiledSize{peak_activation_bytes(placed.shard), weights, experts};
}

}  // namespace moec
