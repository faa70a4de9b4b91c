// Checks that the schedule is executable: each shard runs once, each port is bound, each edge is
// written before it is read, and the types of both ends are equal.
#include <array>
#include <map>
#include <set>

#include "backends/manifest/check_parts.h"
#include "backends/manifest/find_port.h"
#include "ir/graph/port_names.h"

namespace moec::manifest {
namespace {

Dims cache_dims(const Cache& cache, int64_t pages, bool keys) {
  return {pages, cache.kv_heads, cache.rows / pages, keys ? cache.head_dim : cache.value_dim};
}

bool holds(const Shard& shard, int64_t layer) {
  // Compares a difference, because shard.layer + shard.layers could overflow.
  return shard.layer >= 0 && shard.layer <= layer && layer - shard.layer < shard.layers;
}

// Checks that each port is bound exactly once, and that each binding names a port.
template <class Binding>
void check_bound(const std::vector<Binding>& bindings, const std::vector<Port>& ports,
                 const std::string& shard, Findings& findings) {
  std::set<std::string_view> bound;
  for (const Binding& binding : bindings) {
    findings.require(bound.insert(binding.port).second, "manifest.schedule", shard,
                     "the port {} is bound twice", binding.port);
    findings.require(find_port(ports, binding.port) != nullptr, "manifest.schedule", shard,
                     "the step binds {}, which is not a port of the shard", binding.port);
  }
  for (const Port& port : ports)
    findings.require(bound.count(port.name) == 1, "manifest.schedule", shard,
                     "the port {} is not bound", port.name);
}

// Simulates the schedule for one width, edge by edge. A shard with several top-k variants uses
// variant number `form`, or its last one if it has fewer.
class Walk {
 public:
  Walk(const Manifest& manifest, const ShardIndex& shards, size_t width, size_t form,
       Findings& findings)
      : manifest_(manifest),
        shards_(shards),
        width_(width),
        form_(form),
        tokens_(manifest.build.tokens[width]),
        findings_(findings) {}

  void run() {
    const Model& model = manifest_.model;
    if (manifest_.has_embedding()) edges_[std::string(kEmbedEdge)] = {{}, {model.hidden, tokens_}};
    for (const Step& step : manifest_.schedule)
      // check_steps() has reported unknown shards.
      if (const Shard* shard = find_shard(shards_, step.shard)) run_step(step, *shard);
    for (const auto& [name, edge] : edges_)
      findings_.require(edge.read, "manifest.schedule", {}, "the edge {} is never read", name);
  }

 private:
  struct Edge {
    std::optional<Type> type;  // nullopt for the embedding rows, whose reader determines the layout
    std::array<int64_t, 2> rows = {};  // channels and tokens, if `type` is not set
    bool read = false;
  };

  void run_step(const Step& step, const Shard& shard) {
    const size_t widths = manifest_.build.tokens.size();
    const size_t forms = shard.widths.size() / widths;
    // Graphs are stored variant by variant, each with all widths.
    const Width& width = shard.widths[width_ + widths * std::min(form_, forms - 1)];
    check_bound(step.inputs, width.inputs, shard.name, findings_);
    check_bound(step.outputs, width.outputs, shard.name, findings_);
    for (const InputBinding& binding : step.inputs)
      if (const Port* port = find_port(width.inputs, binding.port)) input(binding, *port, shard);
    for (const OutputBinding& binding : step.outputs)
      if (const Port* port = find_port(width.outputs, binding.port)) output(binding, *port, shard);
    check_skip(step, width);
  }

  void input(const InputBinding& binding, const Port& port, const Shard& shard) {
    if (binding.source == SourceKind::edge) return read(binding.edge, port, shard);
    if (reads_cache(binding.source))
      take_cache(enum_name(binding.source), binding.layer, port, shard, read_);
    std::optional<Dims> dims = dims_of(binding, port);
    if (findings_.require(dims.has_value(), "manifest.type", shard.name,
                          "the port {} reads {}, which the manifest lacks", port.name,
                          enum_name(binding.source)))
      require_dims(port, *dims, enum_name(binding.source), shard);
  }

  void output(const OutputBinding& binding, const Port& port, const Shard& shard) {
    if (binding.sink == SinkKind::edge) return write(binding.edge, port, shard);
    if (binding.sink == SinkKind::logits) {
      bool fits = is_token_tensor(port, shard.vocab_size);
      findings_.require(fits, "manifest.type", shard.name,
                        "the port {} is {}, expected {} tokens of {}", port.name,
                        to_string(port.type()), tokens_, shard.vocab_size);
      return;
    }
    take_cache(enum_name(binding.sink), binding.layer, port, shard, written_);
    const Cache* cache = manifest_.find_cache(binding.layer);
    if (!findings_.require(cache != nullptr, "manifest.type", shard.name,
                           "the port {} writes a cache that layer {} lacks", port.name,
                           binding.layer))
      return;
    if (binding.sink == SinkKind::recurrent_state)
      require_dims(port, cache->state, enum_name(binding.sink), shard);
    else if (binding.sink == SinkKind::history_rows)
      findings_.require(is_token_tensor(port, cache->history_channels), "manifest.type", shard.name,
                        "the port {} is {}, expected {} tokens of {} history channels", port.name,
                        to_string(port.type()), tokens_, cache->history_channels);
    else
      require_dims(port, new_rows_dims(*cache, binding.sink), enum_name(binding.sink), shard);
  }

  Dims new_rows_dims(const Cache& cache, SinkKind sink) const {
    return {1, cache.kv_heads, tokens_,
            sink == SinkKind::k_rows ? cache.head_dim : cache.value_dim};
  }

  void read(const std::string& name, const Port& port, const Shard& shard) {
    // The first layer of a later stage reads edges of the previous stage.
    if (!manifest_.has_embedding() && shard.layer == manifest_.first_layer())
      edges_.try_emplace(name, Edge{port.type()});
    auto found = edges_.find(name);
    if (!findings_.require(found != edges_.end(), "manifest.schedule", shard.name,
                           "the port {} reads the edge {} before any step writes it", port.name,
                           name))
      return;
    Edge& edge = found->second;
    edge.read = true;
    bool fits = edge.type ? *edge.type == port.type() : is_token_tensor(port, edge.rows[0]);
    findings_.require(fits, "manifest.type", shard.name,
                      "the port {} {} does not match the edge {} {}", port.name,
                      to_string(port.type()), name,
                      edge.type ? to_string(*edge.type) : "of embedding rows");
  }

  void write(const std::string& name, const Port& port, const Shard& shard) {
    Edge edge{port.type()};
    // The next stage, and no step of this node, reads the outputs of the node's last layer.
    edge.read = !manifest_.has_head() && shard.layer + shard.layers == manifest_.end_layer();
    bool first = edges_.emplace(name, edge).second;
    findings_.require(first, "manifest.schedule", shard.name, "the edge {} is written twice", name);
  }

  static bool reads_cache(SourceKind source) {
    return source == SourceKind::k_cache || source == SourceKind::v_cache ||
           source == SourceKind::history || source == SourceKind::recurrent_state;
  }

  using LayerCaches = std::set<std::pair<std::string_view, int64_t>>;  // (source or sink, layer)

  // Checks that a cache is read once and written once, by the shard that has its layer.
  void take_cache(std::string_view what, int64_t layer, const Port& port, const Shard& shard,
                  LayerCaches& taken) {
    const bool own = holds(shard, layer);
    findings_.require(
        own, "manifest.schedule", shard.name,
        "the port {} is bound to the cache of layer {}, which the shard does not hold", port.name,
        layer);
    findings_.require(!own || taken.emplace(what, layer).second, "manifest.schedule", shard.name,
                      "the port {} is bound to the cache of layer {}, which another port uses too",
                      port.name, layer);
  }

  std::optional<Dims> dims_of(const InputBinding& binding, const Port& port) const {
    const int64_t pages = manifest_.build.cache_pages;
    switch (binding.source) {
      case SourceKind::rope_cos:
      case SourceKind::rope_sin:
        if (!manifest_.rope || !manifest_.rope->has(binding.rotation)) return std::nullopt;
        return Dims{tokens_, manifest_.rope->width(binding.rotation)};
      case SourceKind::query_scale:
      case SourceKind::token_mask:
        return dims_of_numbers(binding.source, port);
      case SourceKind::attn_mask:
        return Dims{pages, 1, tokens_, keys() / pages};
      case SourceKind::kv_write_mask:
        return Dims{pages, 1, manifest_.build.context / pages, tokens_};
      case SourceKind::k_cache:
      case SourceKind::v_cache:
      case SourceKind::history:
      case SourceKind::recurrent_state:
        return dims_of_kept(binding, port);
      case SourceKind::edge:  // has no fixed dims; handled earlier by read()
        break;
    }
    return std::nullopt;
  }
  // Returns the dims of a source with one number per token.
  std::optional<Dims> dims_of_numbers(SourceKind source, const Port& port) const {
    const bool there =
        source != SourceKind::query_scale || (manifest_.rope && manifest_.rope->query_scale);
    if (!there || port.layout == Layout::plain) return std::nullopt;
    return token_type(port.dtype, port.layout, 1, tokens_).dims;
  }
  // Returns the dims of a source that a layer keeps from earlier tokens.
  std::optional<Dims> dims_of_kept(const InputBinding& binding, const Port& port) const {
    const Cache* cache = manifest_.find_cache(binding.layer);
    if (!cache) return std::nullopt;
    if (binding.source == SourceKind::recurrent_state)
      return cache->state.empty() ? std::nullopt : std::optional(cache->state);
    if (binding.source != SourceKind::history)
      return cache_dims(*cache, manifest_.build.cache_pages, binding.source == SourceKind::k_cache);
    if (cache->history_tokens == 0 || port.layout == Layout::plain) return std::nullopt;
    return token_type(port.dtype, port.layout, cache->history_channels, cache->history_tokens).dims;
  }
  int64_t keys() const {
    // With append, the keys are the cache and the new tokens. With blend, the new tokens are
    // already in the cache.
    switch (manifest_.build.cache) {
      case CacheForm::none:
        return tokens_;
      case CacheForm::append:
        return manifest_.build.context + tokens_;
      case CacheForm::blend:
        return manifest_.build.context;
    }
    return 0;
  }

  bool is_token_tensor(const Port& port, int64_t channels) const {
    return port.layout != Layout::plain &&
           port.type() == token_type(port.dtype, port.layout, channels, tokens_);
  }
  void require_dims(const Port& port, const Dims& dims, std::string_view what, const Shard& shard) {
    findings_.require(port.dims == dims, "manifest.type", shard.name,
                      "the port {} is {}, but {} is {}", port.name, to_string(port.dims), what,
                      to_string(dims));
  }

  void check_skip(const Step& step, const Width& width) {
    // A skipped step forwards a tensor unchanged, so both ports need the same type.
    if (step.skip_from.empty() && step.skip_to.empty()) return;
    const Port* from = find_port(width.inputs, step.skip_from);
    const Port* to = find_port(width.outputs, step.skip_to);
    findings_.require(from && to && from->type() == to->type(), "manifest.schedule", step.shard,
                      "the step cannot be skipped by forwarding \"{}\" as \"{}\"", step.skip_from,
                      step.skip_to);
  }

  const Manifest& manifest_;
  const ShardIndex& shards_;
  size_t width_, form_;
  int64_t tokens_;
  Findings& findings_;
  std::map<std::string, Edge> edges_;
  LayerCaches read_, written_;
};

// Checks that each shard runs exactly once. Returns the number of top-k variants to simulate; 0 if
// a shard lacks a width.
size_t check_steps(const Manifest& manifest, const ShardIndex& shards, Findings& findings) {
  std::map<std::string_view, int64_t> runs;
  for (const Step& step : manifest.schedule) {
    ++runs[step.shard];
    findings.require(find_shard(shards, step.shard) != nullptr, "manifest.schedule", step.shard,
                     "a step runs an unknown shard");
  }
  const size_t widths = manifest.build.tokens.size();
  bool complete = true;
  size_t forms = 1;
  for (const Shard& shard : manifest.shards) {
    findings.require(runs[shard.name] == 1, "manifest.schedule", shard.name,
                     "the schedule runs the shard {} times, expected once", runs[shard.name]);
    complete = complete && !shard.widths.empty() && shard.widths.size() % widths == 0;
    // Shards that do not route have one variant, so the loop keeps the largest number.
    forms = std::max(forms, shard.widths.size() / widths);
  }
  return complete ? forms : 0;
}

// With cache form blend, an attention shard has its layer's keys and values as states. No other
// shard has states.
void check_states(const Manifest& manifest, const Shard& shard, Findings& findings) {
  std::vector<Port> wanted;
  const Cache* cache = manifest.find_cache(shard.layer);
  if (updates_cache(manifest.build.cache) && is_attention(shard.kind) && cache &&
      cache->kv_heads > 0)
    for (const bool keys : {true, false})
      wanted.emplace_back(keys ? kKeyState : kValueState,
                          Type{cache->dtype, cache_dims(*cache, manifest.build.cache_pages, keys)});
  findings.require(shard.states == wanted, "manifest.type", shard.name,
                   "the shard's {} states do not match the {} that its cache requires",
                   shard.states.size(), wanted.size());
}

void check_logits(const Manifest& manifest, Findings& findings) {
  // Compares sets, because the order of logits in the schedule does not matter here.
  std::set<std::pair<std::string_view, std::string_view>> slices, bound;
  for (const LogitSlice& slice : manifest.logits.slices) slices.insert({slice.shard, slice.port});
  for (const Step& step : manifest.schedule)
    for (const OutputBinding& binding : step.outputs)
      if (binding.sink == SinkKind::logits) bound.insert({step.shard, binding.port});
  findings.require(slices == bound, "manifest.vocabulary", {},
                   "the schedule and `logits` name different logit ports");
}

}  // namespace

void check_schedule(const Manifest& manifest, Findings& findings) {
  check_logits(manifest, findings);
  for (const Shard& shard : manifest.shards) check_states(manifest, shard, findings);
  ShardIndex shards = index_shards(manifest);
  const size_t forms = check_steps(manifest, shards, findings);
  for (size_t form = 0; form < forms; ++form)
    for (size_t width = 0; width < manifest.build.tokens.size(); ++width)
      Walk(manifest, shards, width, form, findings).run();
}

}  // namespace moec::manifest
