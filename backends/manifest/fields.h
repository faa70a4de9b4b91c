// each_field(struct, f) calls f(name, field) for each field in schema order. The readers and
// writers of both file formats share this list; a test compares it with manifest.fbs.
#pragma once

#include <concepts>
#include <type_traits>

#include "backends/manifest/manifest.h"

namespace moec::manifest {

template <class T, class Struct>
concept Is = std::same_as<std::remove_const_t<T>, Struct>;

void each_field(Is<Tool> auto& self, auto&& f) {
  f("name", self.name);
  f("version", self.version);
}

void each_field(Is<Model> auto& self, auto&& f) {
  f("family", self.family);
  f("config_digest", self.config_digest);
  f("hidden", self.hidden);
  f("vocab", self.vocab);
  f("layers", self.layers);
  f("max_positions", self.max_positions);
  f("norm_eps", self.norm_eps);
  f("tied_head", self.tied_head);
  f("left_out_layers", self.left_out_layers);
  f("task", self.task);
  f("eos_tokens", self.eos_tokens);
  f("mixer_only", self.mixer_only);
  f("feed_forward_only", self.feed_forward_only);
}

void each_field(Is<Budget> auto& self, auto&& f) {
  f("kind", self.kind);
  f("bytes", self.bytes);
}

void each_field(Is<Build> auto& self, auto&& f) {
  f("target", self.target);
  f("format", self.format);
  f("dtype", self.dtype);
  f("layout", self.layout);
  f("tokens", self.tokens);
  f("context", self.context);
  f("cache", self.cache);
  f("cache_pages", self.cache_pages);
  f("routing", self.routing);
  f("exact", self.exact);
  f("experts", self.experts);
  f("seeded", self.seeded);
  f("budgets", self.budgets);
  f("weights", self.weights);
  f("expert_mask", self.expert_mask);
  f("drop_masked", self.drop_masked);
}

void each_field(Is<FileRef> auto& self, auto&& f) {
  f("path", self.path);
  f("bytes", self.bytes);
  f("digest", self.digest);
  f("sha256", self.sha256);
}

void each_field(Is<TableFile> auto& self, auto&& f) {
  f("file", self.file);
  f("dtype", self.dtype);
  f("rows", self.rows);
  f("columns", self.columns);
}

void each_field(Is<RopeTable> auto& self, auto&& f) {
  f("table", self.table);
  f("style", self.style);
  f("query_scale", self.query_scale);
  f("widths", self.widths);
}

void each_field(Is<Cache> auto& self, auto&& f) {
  f("layer", self.layer);
  f("kv_heads", self.kv_heads);
  f("rows", self.rows);
  f("head_dim", self.head_dim);
  f("value_dim", self.value_dim);
  f("dtype", self.dtype);
  f("history_tokens", self.history_tokens);
  f("history_channels", self.history_channels);
  f("state", self.state);
}

void each_field(Is<Port> auto& self, auto&& f) {
  f("name", self.name);
  f("dtype", self.dtype);
  f("layout", self.layout);
  f("dims", self.dims);
}

void each_field(Is<Width> auto& self, auto&& f) {
  f("tokens", self.tokens);
  f("file", self.file);
  f("function", self.function);
  f("graph", self.graph);
  f("inputs", self.inputs);
  f("outputs", self.outputs);
  f("top_k", self.top_k);
}

void each_field(Is<OpCount> auto& self, auto&& f) {
  f("op", self.op);
  f("count", self.count);
}

void each_field(Is<Cost> auto& self, auto&& f) {
  f("bytes_dense", self.bytes_dense);
  f("bytes_active", self.bytes_active);
  f("macs_dense", self.macs_dense);
  f("macs_active", self.macs_active);
}

void each_field(Is<RuleCount> auto& self, auto&& f) {
  f("rule", self.rule);
  f("ops", self.ops);
}

void each_field(Is<Placement> auto& self, auto&& f) {
  f("unit", self.unit);
  f("ops", self.ops);
  f("rules", self.rules);
}

void each_field(Is<Routing> auto& self, auto&& f) {
  f("experts", self.experts);
  Router::each_field(self.router, f);
}

void each_field(Is<WeightRange> auto& self, auto&& f) {
  f("part", self.part);
  f("data", self.data);
  f("offset", self.offset);
  f("bytes", self.bytes);
  f("alignment", self.alignment);
  f("digest", self.digest);
}

void each_field(Is<WeightRecord> auto& self, auto&& f) {
  f("name", self.name);
  f("role", self.role);
  f("moe_layer", self.moe_layer);
  f("first_expert", self.first_expert);
  f("digests", self.digests);
  f("ranges", self.ranges);
}

void each_field(Is<Shard> auto& self, auto&& f) {
  f("name", self.name);
  f("kind", self.kind);
  f("layer", self.layer);
  f("layers", self.layers);
  f("moe_layers", self.moe_layers);
  f("first_expert", self.first_expert);
  f("experts", self.experts);
  f("expert_ids", self.expert_ids);
  f("slice", self.slice);
  f("slices", self.slices);
  f("vocab_begin", self.vocab_begin);
  f("vocab_size", self.vocab_size);
  f("widths", self.widths);
  f("data", self.data);
  f("states", self.states);
  f("routing", self.routing);
  f("weight_bytes", self.weight_bytes);
  f("weights", self.weights);
  f("ops", self.ops);
  f("cost", self.cost);
  f("placement", self.placement);
  f("cast_overflows", self.cast_overflows);
}

void each_field(Is<InputBinding> auto& self, auto&& f) {
  f("port", self.port);
  f("source", self.source);
  f("edge", self.edge);
  f("window", self.window);
  f("layer", self.layer);
  f("chunk", self.chunk);
  f("ahead", self.ahead);
  f("rotation", self.rotation);
}

void each_field(Is<OutputBinding> auto& self, auto&& f) {
  f("port", self.port);
  f("sink", self.sink);
  f("edge", self.edge);
  f("layer", self.layer);
}

void each_field(Is<Step> auto& self, auto&& f) {
  f("shard", self.shard);
  f("inputs", self.inputs);
  f("outputs", self.outputs);
  f("skip_from", self.skip_from);
  f("skip_to", self.skip_to);
}

void each_field(Is<LogitSlice> auto& self, auto&& f) {
  f("shard", self.shard);
  f("port", self.port);
  f("begin", self.begin);
  f("size", self.size);
}

void each_field(Is<Logits> auto& self, auto&& f) {
  f("vocab", self.vocab);
  f("slices", self.slices);
}

void each_field(Is<Label> auto& self, auto&& f) { f("name", self.name); }

void each_field(Is<Tagging> auto& self, auto&& f) {
  f("labels", self.labels);
  f("stay_outside", self.stay_outside);
  f("outside_to_start", self.outside_to_start);
  f("inside_to_inside", self.inside_to_inside);
  f("inside_to_end", self.inside_to_end);
  f("end_to_outside", self.end_to_outside);
  f("end_to_start", self.end_to_start);
}

void each_field(Is<IgnoredWeight> auto& self, auto&& f) {
  f("tensor", self.tensor);
  f("reason", self.reason);
}

void each_field(Is<HeldShard> auto& self, auto&& f) { f("shard", self.shard); }

void each_field(Is<Device> auto& self, auto&& f) {
  f("name", self.name);
  f("bytes", self.bytes);
  f("shards", self.shards);
}

void each_field(Is<Node> auto& self, auto&& f) {
  f("name", self.name);
  f("experts", self.experts);
  f("stage", self.stage);
  f("stages", self.stages);
  f("first_layer", self.first_layer);
  f("layers", self.layers);
}

void each_field(Is<Golden> auto& self, auto&& f) {
  f("shard", self.shard);
  f("precision", self.precision);
  f("cosine", self.cosine);
  f("relative_l2", self.relative_l2);
}

void each_field(Is<TopKLayer> auto& self, auto&& f) {
  f("layer", self.layer);
  f("top_k", self.top_k);
}

void each_field(Is<TopKVariant> auto& self, auto&& f) {
  f("name", self.name);
  f("layers", self.layers);
  f("bytes_active", self.bytes_active);
  f("macs_active", self.macs_active);
}

void each_field(Is<BatteryRule> auto& self, auto&& f) {
  f("below", self.below);
  f("form", self.form);
}

void each_field(Is<CategoryRule> auto& self, auto&& f) {
  f("category", self.category);
  f("form", self.form);
}

void each_field(Is<Confidence> auto& self, auto&& f) { f("threshold", self.threshold); }

void each_field(Is<TopK> auto& self, auto&& f) {
  f("own", self.own);
  f("forms", self.forms);
  f("battery", self.battery);
  f("categories", self.categories);
  f("confidence", self.confidence);
}

void each_field(Is<Capacity> auto& self, auto&& f) { f("factor", self.factor); }

void each_field(Is<Manifest> auto& self, auto&& f) {
  f("schema_version", self.schema_version);
  f("tool", self.tool);
  f("model", self.model);
  f("build", self.build);
  f("tokenizer", self.tokenizer);
  f("carried", self.carried);
  f("side_files", self.side_files);
  f("binary", self.binary);
  f("embedding", self.embedding);
  f("rope", self.rope);
  f("caches", self.caches);
  f("masked_value", self.masked_value);
  f("shards", self.shards);
  f("schedule", self.schedule);
  f("logits", self.logits);
  f("tagging", self.tagging);
  f("devices", self.devices);
  f("node", self.node);
  f("ignored", self.ignored);
  f("golden", self.golden);
  f("top_k", self.top_k);
  f("capacity", self.capacity);
}

// The name of an enum value, and its inverse.
template <class E>
std::string_view text_of(E value) {
  if constexpr (std::same_as<E, DType>)
    return dtype_name(value);
  else if constexpr (std::same_as<E, Layout>)
    return layout_name(value);
  else
    return enum_name(value);
}

template <class E>
std::optional<E> parse_text(std::string_view name) {
  if constexpr (std::same_as<E, DType>)
    return parse_dtype(name);
  else if constexpr (std::same_as<E, Layout>)
    return parse_layout(name);
  else
    return parse_enum<E>(name);
}

}  // namespace moec::manifest
