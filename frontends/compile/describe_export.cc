#include "frontends/compile/describe_export.h"

#include <set>

#include "backends/coverage/graph_digest.h"
#include "backends/manifest/from_shard.h"
#include "ir/analysis/find_experts.h"
#include "ir/base/at.h"
#include "ir/model/model_experts.h"

namespace moec {
namespace {

manifest::FileRef file_ref(const EmittedFile& file) {
  return {file.path, static_cast<int64_t>(file.bytes), file.digest, file.sha256};
}

// compiled.widths, emitted.graphs and graph_keys() have the same order: all widths of a variant,
// then the next variant.
std::vector<manifest::Width> describe_widths(const Plan& plan, const CompiledShard& compiled,
                                             const EmitReport& emitted, size_t moe_layers) {
  std::vector<manifest::Width> widths;
  for (size_t i = 0; i < compiled.widths.size(); ++i) {
    const Shard& shard = compiled.widths[i];
    const auto roles = find_experts(shard, plan.model.moe.experts, moe_layers);
    const size_t of_form = plan.build.tokens.size();
    const CompiledForm& form = compiled.forms[i / of_form];
    widths.push_back({plan.build.tokens[i % of_form],
                      file_ref(emitted.graphs[i].file),
                      emitted.graphs[i].function,
                      digest_graph(shard, roles),
                      ports_of(shard, true),
                      ports_of(shard, false),
                      {}});
    if (!form.top_k.empty()) widths.back().top_k = form.top_k;
  }
  return widths;
}

manifest::Logits describe_logits(const Plan& plan) {
  manifest::Logits logits{plan.model.logits(), {}};
  for (const Step& step : plan.schedule)
    for (const OutputBinding& binding : step.outputs)
      if (binding.sink == SinkKind::logits) {
        const ShardDecl& shard = plan.shards[step.shard];
        logits.slices.push_back({shard.name, binding.port, shard.vocab_begin, shard.vocab_size});
      }
  return logits;
}

manifest::Tagging describe_labels(const ModelConfig& model) {
  manifest::Tagging tagging;
  for (const std::string& label : model.head.labels) tagging.labels.push_back({label});
  return tagging;
}

// Returns the nonzero budgets of the shard kinds that the plan contains.
std::vector<manifest::Budget> describe_budgets(const Plan& plan, const Budgets& budgets) {
  std::set<ShardKind> kinds;
  for (const ShardDecl& shard : plan.shards) kinds.insert(shard.kind);
  std::vector<manifest::Budget> described;
  for (const ShardKind kind : kinds)
    if (const Budget& budget = budget_of(budgets, kind); budget.bytes > 0)
      described.push_back({kind, budget.bytes});
  return described;
}

// Returns true if the default variant has the checkpoint's top-k in every layer.
bool takes_own_experts(const Plan& plan) {
  const std::vector<TopKVariant>& forms = plan.build.experts.top_k;
  const ExpertGrid grid = expert_grid(plan.model);
  return forms.empty() || forms.front() == uniform_variant(grid, grid.top_k);
}

// Returns the top-k variants without costs; absent if the plan has none.
std::optional<manifest::TopK> describe_top_k(const Plan& plan, const TopKPolicy& policy) {
  if (plan.build.experts.top_k.empty()) return std::nullopt;
  manifest::TopK top_k;
  top_k.own = plan.model.moe.routing.top_k;
  for (const TopKVariant& form : plan.build.experts.top_k) {
    manifest::TopKVariant& described = top_k.forms.emplace_back();
    described.name = form.name;
    for (const auto& [layer, k] : form.layers) described.layers.push_back({layer, k});
  }
  top_k.battery = policy.battery;
  top_k.categories = policy.categories;
  if (policy.confidence) top_k.confidence = manifest::Confidence{*policy.confidence};
  return top_k;
}

manifest::Build describe_build(const Plan& plan, const PassOptions& options,
                               const Budgets& budgets) {
  const BuildOptions& build = plan.build;
  // The routing is exact only if none of three options changes the choices of the checkpoint's
  // routers: an inexact form, another top-k, or a capacity.
  return {options.target.name,
          options.target.format,
          build.dtype,
          build.layout,
          build.tokens,
          build.context,
          build.cache,
          build.cache_pages,
          std::string(enum_name(options.routing)),
          is_exact(options.routing) && takes_own_experts(plan) && options.capacity == 0,
          std::string(enum_name(options.experts)),
          plan.weight_seed.has_value(),
          describe_budgets(plan, budgets),
          to_string(build.weights),
          to_string(build.experts.mask),
          build.experts.drop_masked};
}

manifest::Cache describe_cache(const Plan& plan, int64_t layer) {
  const LayerConfig& config = at(plan.model.layers, layer);
  const AttentionConfig& attention = plan.model.attention_of(config);
  const ModelConfig::Memory memory = plan.model.memory_of(config);
  manifest::Cache cache;
  cache.layer = layer;
  cache.dtype = plan.build.dtype;
  // Other mixers keep a history or a state instead of keys and values; their sizes stay 0.
  if (config.mixes() && !is_recurrent(config.mixer)) {
    cache.kv_heads = attention.kv_heads;
    cache.rows = plan.build.context;
    cache.head_dim = attention.head_dim;
    cache.value_dim = attention.value_dim;
  }
  cache.history_tokens = memory.history_tokens;
  cache.history_channels = memory.history_channels;
  cache.state = memory.state;
  return cache;
}

// Adds one cache per layer; adds none for models that process a text in a single step.
void add_caches(const Plan& plan, Manifest& manifest) {
  const ModelConfig& model = plan.model;
  for (int64_t layer = 0; layer < std::ssize(model.layers) && model.keeps_cache(); ++layer)
    manifest.caches.push_back(describe_cache(plan, layer));
}

}  // namespace

// Returns the indices of the layers that consist of exactly `parts`.
static std::vector<int64_t> layers_of(const ModelConfig& model, LayerParts parts) {
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < std::ssize(model.layers); ++layer)
    if (at(model.layers, layer).parts == parts) layers.push_back(layer);
  return layers;
}

manifest::Model describe_model(const ModelConfig& model) {
  return {model.family,
          {},
          model.hidden,
          model.vocab,
          std::ssize(model.layers),
          model.max_positions,
          model.norm.eps,
          model.head.tied,
          model.stored.left_out_layers,
          model.head.task,
          {},
          layers_of(model, LayerParts::mixer),
          layers_of(model, LayerParts::feed_forward)};
}

Manifest describe_plan(const Plan& plan, const PassOptions& options, const Budgets& budgets,
                       const TopKPolicy& policy) {
  Manifest manifest;
  manifest.tool = {"moec", MOEC_VERSION};
  manifest.model = describe_model(plan.model);
  manifest.build = describe_build(plan, options, budgets);
  manifest.masked_value = masked_score(plan.build.dtype);
  add_caches(plan, manifest);
  for (const Step& step : plan.schedule)
    manifest.schedule.push_back(
        {plan.shards[step.shard].name, step.inputs, step.outputs, step.skip_from, step.skip_to});
  manifest.logits = describe_logits(plan);
  if (plan.model.head.task == Task::token_classification)
    manifest.tagging = describe_labels(plan.model);
  manifest.ignored = plan.ignored;
  manifest.top_k = describe_top_k(plan, policy);
  if (options.capacity > 0) manifest.capacity = manifest::Capacity{options.capacity};
  return manifest;
}

manifest::Shard describe_shard(const Plan& plan, size_t index, const CompiledShard& compiled,
                               const EmitReport& emitted, const Target& target) {
  const ShardDecl& decl = plan.shards[index];
  manifest::Shard shard;
  shard.name = decl.name;
  shard.kind = decl.kind;
  shard.layer = decl.layer;
  shard.layers = decl.layers;
  shard.moe_layers = moe_layers_of(plan.model, decl);
  shard.first_expert = decl.first_expert;
  shard.experts = decl.experts;
  shard.expert_ids = decl.expert_ids;
  shard.slice = decl.slice;
  shard.slices = decl.slices;
  shard.vocab_begin = decl.vocab_begin;
  shard.vocab_size = decl.vocab_size;
  shard.widths = describe_widths(plan, compiled, emitted, shard.moe_layers.size());
  for (const EmittedFile& file : emitted.data) shard.data.push_back(file_ref(file));
  const Shard& narrowest = compiled.widths.front();
  for (const State& state : narrowest.states) shard.states.emplace_back(state.name, state.type);
  if (compiled.router) shard.routing = manifest::Routing{plan.model.moe.experts, *compiled.router};
  shard.weight_bytes = static_cast<int64_t>(emitted.weight_bytes);
  shard.weights = emitted.weights;
  for (const auto& [op, count] : op_histogram(narrowest)) shard.ops.push_back({op, count});
  shard.cost = {compiled.cost.bytes_dense, compiled.cost.bytes_active, compiled.cost.macs_dense,
                compiled.cost.macs_active};
  shard.placement = predict_placement(narrowest, target);
  shard.cast_overflows = static_cast<int64_t>(emitted.overflows());
  return shard;
}

}  // namespace moec
