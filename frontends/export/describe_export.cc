#include "frontends/export/describe_export.h"

#include <map>

#include "backends/coverage/graph_digest.h"
#include "ir/analysis/find_experts.h"
#include "ir/target/target_rules.h"

namespace moec {
namespace {

manifest::FileRef file_ref(const EmittedFile& file) {
  return {file.path, static_cast<int64_t>(file.bytes), file.digest, file.sha256};
}

std::vector<manifest::Width> describe_widths(const Plan& plan, const CompiledShard& compiled,
                                             const EmitReport& emitted, size_t moe_layers) {
  std::vector<manifest::Width> widths;
  for (size_t i = 0; i < compiled.widths.size(); ++i) {
    const Shard& shard = compiled.widths[i];
    const auto roles = find_experts(shard, plan.model.moe.experts, moe_layers);
    widths.push_back({plan.build.tokens[i], file_ref(emitted.graphs[i].file),
                      emitted.graphs[i].function, digest_graph(shard, roles), ports_of(shard, true),
                      ports_of(shard, false)});
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
  for (const std::string& label : model.labels) tagging.labels.push_back({label});
  return tagging;
}

}  // namespace

std::vector<std::string> label_names(const manifest::Tagging& tagging) {
  std::vector<std::string> names;
  for (const manifest::Label& label : tagging.labels) names.push_back(label.name);
  return names;
}

std::vector<manifest::Port> ports_of(const Shard& shard, bool inputs) {
  std::vector<manifest::Port> ports;
  if (inputs)
    for (ValueId input : shard.inputs)
      ports.emplace_back(shard.values[input].name, shard.type(input));
  else
    for (const Output& output : shard.outputs)
      ports.emplace_back(output.name, shard.type(output.value));
  return ports;
}

std::vector<manifest::Placement> predict_placement(const Shard& shard, const Target& target) {
  std::map<std::string, std::map<std::string, int64_t>, std::less<>> rules_by_unit;
  std::map<std::string, int64_t, std::less<>> ops_by_unit;
  const auto units = predict_units(target, shard);
  for (OpId op : op_ids(shard)) ++ops_by_unit[std::string(units[op].unit)];
  for (const auto& [op, rule] : find_breaches(target, shard))
    ++rules_by_unit[std::string(units[op].unit)][rule->id];
  std::vector<manifest::Placement> placement;
  for (const auto& [unit, ops] : ops_by_unit) {
    manifest::Placement entry{unit, ops, {}};
    for (const auto& [rule, count] : rules_by_unit[unit]) entry.rules.push_back({rule, count});
    placement.push_back(std::move(entry));
  }
  return placement;
}

Manifest describe_plan(const Plan& plan, const PassOptions& options) {
  Manifest manifest;
  const ModelConfig& model = plan.model;
  manifest.tool = {"moec", MOEC_VERSION};
  manifest.model = {model.family,
                    {},
                    model.hidden,
                    model.vocab,
                    static_cast<int64_t>(model.layers.size()),
                    model.max_positions,
                    model.norm_eps,
                    model.tied_head,
                    model.left_out_layers,
                    model.task};
  const BuildOptions& build = plan.build;
  manifest.build = {options.target.name,
                    options.target.format,
                    build.dtype,
                    build.layout,
                    build.tokens,
                    build.context,
                    build.cache,
                    build.cache_pages,
                    std::string(enum_name(options.routing)),
                    is_exact(options.routing),
                    std::string(enum_name(options.experts)),
                    plan.weight_seed.has_value()};
  const AttentionConfig& attention = model.attention;
  for (size_t layer = 0; layer < model.layers.size() && model.keeps_cache(); ++layer)
    manifest.caches.push_back({static_cast<int64_t>(layer), attention.kv_heads, build.context,
                               attention.head_dim, attention.value_dim, build.dtype,
                               attention.convolved ? attention.convolved->history() : 0,
                               attention.convolved ? attention.history_channels() : 0});
  for (const Step& step : plan.schedule)
    manifest.schedule.push_back(
        {plan.shards[step.shard].name, step.inputs, step.outputs, step.skip_from, step.skip_to});
  manifest.logits = describe_logits(plan);
  if (model.task == Task::token_classification) manifest.tagging = describe_labels(model);
  manifest.ignored = plan.ignored;
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
