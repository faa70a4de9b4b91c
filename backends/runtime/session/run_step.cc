// Runs one step of the schedule: binds the session's values to the input ports of a shard and
// stores the shard's outputs.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/manifest/find_port.h"
#include "backends/reference/heads.h"
#include "backends/runtime/session/masked_routers.h"
#include "backends/runtime/session/session_impl.h"
#include "backends/runtime/session/step_inputs.h"
#include "ir/base/at.h"
#include "ir/base/invariant.h"
#include "ir/experts/expert_runs.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

Tensor cache_input(const manifest::Port& port, CacheValues& cache, BorrowedCaches& lent) {
  // A cache in pages has another order of values, so it is copied instead of lent.
  const bool in_pages = port.dims[0] > 1;
  return in_pages ? cache_tensor(port, cache) : lent.lend(port, cache);
}

}  // namespace

// Graphs of different top-k variants have different names here, so that they stay loaded at the
// same time: a choice by confidence runs all of them for each token.
std::string Session::Impl::graph_name(const manifest::Shard& shard, size_t graph) const {
  const size_t form = graph / token_widths();
  return form == 0 ? shard.name : fmt::format("{} (form {})", shard.name, form);
}

Result<Executable*> Session::Impl::executable(const manifest::Shard& shard, size_t graph) {
  return loaded.get(graph_name(shard, graph), graph % token_widths(), [&](uint64_t limit) {
    return engine->compile({manifest, folder, shard, graph},
                           {.precision = options.precision,
                            .memory_limit = limit,
                            .ceilings = masks() && shard.routing,
                            .pager = is_expert_group(shard.kind) ? experts.get() : nullptr,
                            .watched = watched_in(shard)});
  });
}

std::vector<std::string> Session::Impl::watched_in(const manifest::Shard& shard) const {
  std::vector<std::string> watched = options.watched;
  // Jobs watch values of routers; the empty suffix stands for all values of all shards.
  if (!shard.routing && std::find(watched.begin(), watched.end(), "") == watched.end()) return {};
  if (!manifest.capacity || !shard.routing) return watched;
  // CapacityDrops compares both values, so the engine must expose them even without a probe.
  for (const char* label : {kUncappedWeights, kRoutingWeights})
    if (std::find(watched.begin(), watched.end(), label) == watched.end())
      watched.emplace_back(label);
  return watched;
}

// The RoPE table has a row per position: for each rotation its cosines, then its sines, followed by
// the factor of the queries if the model has one (frontends/export/export_tables.cc).
Rows Session::Impl::rotation(const Chunk& chunk, const InputBinding& binding) const {
  const manifest::RopeTable& table = *manifest.rope;
  const bool scale = binding.source == SourceKind::query_scale;
  Rows rows{scale ? 1 : table.width(binding.rotation), {}};
  int64_t first = table.column(scale ? std::ssize(table.widths) : binding.rotation);
  if (binding.source == SourceKind::rope_sin) first += rows.columns;
  for (int64_t t = 0; t < chunk.count; ++t) {
    const auto begin = chunk.rope.row(t).begin() + first;
    rows.data.insert(rows.data.end(), begin, begin + rows.columns);
  }
  return rows;
}

// An f16 run of an f32 export uses the masked value of f16, because that of f32 would overflow to
// infinity.
double Session::Impl::masked_value() const {
  if (options.precision == Precision::f32) return manifest.masked_value;
  return std::max(manifest.masked_value, masked_score(DType::f16));
}

Result<Tensor> Session::Impl::input(const InputBinding& binding, const manifest::Port& port,
                                    const Chunk& chunk, BorrowedCaches& lent) {
  switch (binding.source) {
    case SourceKind::edge:
      return pack_rows(port, chunk.edges.at(binding.edge));
    case SourceKind::rope_cos:
    case SourceKind::rope_sin:
    case SourceKind::query_scale:
      return pack_rows(port, rotation(chunk, binding));
    case SourceKind::attn_mask:
      return attention_mask(
          port, {manifest.build.cache, manifest.build.context, chunk.position, chunk.count},
          binding, masked_value());
    case SourceKind::kv_write_mask:
      return write_mask(port, chunk.position, chunk.count);
    case SourceKind::k_cache:
      return cache_input(port, sequence.caches.at(binding.layer).k, lent);
    case SourceKind::v_cache:
      return cache_input(port, sequence.caches.at(binding.layer).v, lent);
    case SourceKind::history:
      return pack_rows(port, sequence.caches.at(binding.layer).history);
    case SourceKind::recurrent_state:
      return lent.lend(port, sequence.caches.at(binding.layer).state);
    case SourceKind::token_mask:
      return token_mask(port, chunk.count);
  }
  MOEC_CHECK(false, "the source of an input is not handled");
}

// Each head shard fills its columns.
static void take_logits(const Tensor& tensor, int64_t vocab_begin, Chunk& chunk) {
  Rows& logits = chunk.logits;
  if (logits.data.empty()) logits.data.resize(static_cast<size_t>(chunk.count * logits.columns));
  const Rows slice = unpack_rows(tensor, chunk.count);
  for (int64_t t = 0; t < chunk.count; ++t)
    std::copy_n(slice.row(t).begin(), slice.columns,
                logits.data.begin() + t * logits.columns + vocab_begin);
}

void Session::Impl::take_output(const OutputBinding& binding, const manifest::Shard& shard,
                                const Tensor& tensor, Chunk& chunk) {
  switch (binding.sink) {
    case SinkKind::edge:
      chunk.edges[binding.edge] = unpack_rows(tensor, chunk.count);
      return;
    case SinkKind::k_rows:
    case SinkKind::v_rows: {
      const bool keys = binding.sink == SinkKind::k_rows;
      LayerCache& cache = sequence.caches.at(binding.layer);
      NewRows& layer = chunk.new_rows[binding.layer];
      std::vector<float>& rows = keys ? layer.k : layer.v;
      rows = take_cache_rows(tensor, 0, chunk.count);
      store_cache_rows(keys ? cache.k : cache.v, cache, rows, chunk.position);
      return;
    }
    case SinkKind::history_rows: {
      Rows& rows = chunk.new_rows[binding.layer].history;
      rows = unpack_rows(tensor, chunk.count);
      push_rows(sequence.caches.at(binding.layer).history, rows);
      return;
    }
    case SinkKind::recurrent_state:
      sequence.caches.at(binding.layer).state = tensor.data;
      return;
    case SinkKind::logits:
      return take_logits(tensor, shard.vocab_begin, chunk);
  }
}

// The session owns the caches because different widths of a shard can process the same text: a wide
// one for prefill, a narrow one for decode.
Status Session::Impl::put_states(const manifest::Shard& shard, Executable& executable) const {
  for (const manifest::Port& state : shard.states) {
    const LayerCache& cache = sequence.caches.at(shard.layer);
    const CacheValues& values = state.name == kKeyState ? cache.k : cache.v;
    MOEC_TRY(executable.set_state(state.name, cache_tensor(state, values)));
  }
  return {};
}

// Stores the caches that a shard updated, and copies the new rows to the chunk for validation.
void Session::Impl::take_states(const manifest::Shard& shard, const Executable& executable,
                                Chunk& chunk) {
  for (const manifest::Port& state : shard.states) {
    const bool keys = state.name == kKeyState;
    LayerCache& cache = sequence.caches.at(shard.layer);
    const Tensor& after = *executable.state(state.name);
    store_cache(keys ? cache.k : cache.v, from_pages(after).data);
    NewRows& layer = chunk.new_rows[shard.layer];
    (keys ? layer.k : layer.v) = take_cache_rows(after, chunk.position, chunk.count);
  }
}

// Passes the routing weights of a layer to the expert store before the layer's first expert group
// runs.
Status Session::Impl::begin_experts(size_t step, const manifest::Shard& shard, Chunk& chunk) {
  if (!experts || !is_expert_group(shard.kind) || chunk.layer_of_experts == shard.layer) return {};
  chunk.layer_of_experts = shard.layer;
  for (const InputBinding& binding : manifest.schedule[step].inputs)
    if (binding.port == kRoutingWeights)
      MOEC_TRY(experts->begin_layer(shard.layer, chunk.edges.at(binding.edge)));
  const size_t depth = experts->prefetch_depth();
  for (const RouterAhead& router : routers_ahead(step, chunk, depth))
    MOEC_TRY(prefetch_experts(router, chunk));
  return {};
}

Status Session::Impl::prefetch_experts(const RouterAhead& router, const Chunk& chunk) {
  const manifest::Shard& shard = *shards[router.step];
  const size_t graph = graph_of(shard, chunk);
  // In little memory, a router is loaded for one step only. The next one runs soon, but others
  // would be loaded again for each prediction.
  if (router.distance > 1 && !loaded.keeps(graph_name(shard, graph), graph % token_widths()))
    return {};
  MOEC_ASSIGN(Executable * executable, this->executable(shard, graph));
  NamedTensors by_port;
  for (const auto& [port, edge] : router.edges)
    by_port[port] =
        pack_rows(manifest::port_named(shard.widths[graph].inputs, port), chunk.edges.at(edge));
  // The run has no probe, because these routing weights are only a prediction.
  MOEC_ASSIGN(const NamedTensors outputs, run(shard, *executable, by_port, {}));
  if (const auto weights = outputs.find(kRoutingWeights); weights != outputs.end())
    experts->prefetch(shard.layer, unpack_rows(weights->second, chunk.count), router.distance);
  return {};
}

// Runs a shard. Adds the ceilings of the mask to `by_port`.
Result<NamedTensors> Session::Impl::run(const manifest::Shard& shard, Executable& executable,
                                        NamedTensors& by_port, const Probe& probe) const {
  if (masks() && shard.routing)
    add_ceilings(executable.inputs(), shard, mask, options.precision, by_port);
  return executable.run(by_port, probe);
}

// True if the step may be skipped and no token of the chunk chose an expert of its group.
bool Session::Impl::is_idle(const manifest::Step& step, const manifest::Shard& shard,
                            const Chunk& chunk) const {
  if (!options.skip_idle_groups || step.skip_from.empty()) return false;
  const InputBinding* binding = manifest::find_input(step, kRoutingWeights);
  if (!binding || binding->source != SourceKind::edge) return false;
  const Rows& routing = chunk.edges.at(binding->edge);
  for (int64_t t = 0; t < chunk.count; ++t)
    for (const ExpertRun& run : expert_runs(shard))
      for (int64_t e = run.first; e < run.first + run.count; ++e)
        if (at(routing.row(t), e) != 0) return false;
  return true;
}

// Forwards the sum of an idle step as its output and returns true.
bool Session::Impl::skip(const manifest::Step& step, const manifest::Shard& shard, Chunk& chunk) {
  if (!is_idle(step, shard, chunk)) return false;
  const InputBinding* from = manifest::find_input(step, step.skip_from);
  if (!from) return false;
  const Rows* passed_on = &chunk.edges.at(from->edge);
  for (const OutputBinding& binding : step.outputs)
    if (binding.port == step.skip_to) chunk.edges[binding.edge] = *passed_on;
  ++counts.skipped_steps;
  return true;
}

// The returned probe keeps references to the arguments, which must outlive it.
Probe Session::Impl::probe_of(const manifest::Shard& shard, const Chunk& chunk,
                              const StepProbe& probe) {
  const bool routes = routing.observer && shard.routing;
  const bool drops = manifest.capacity && shard.routing;
  if (!probe && !routes && !drops) return {};
  return
      [this, &shard, &chunk, &probe, routes, drops](std::string_view label, const Tensor& value) {
        if (probe) probe(shard, label, value);
        if (drops) counts.drops.take(label, value, chunk.count);
        if (!routes) return;
        if (const auto layer = routed_layer(shard, label))
          routing.observer(*layer, chunk.position, unpack_rows(value, chunk.count));
      };
}

Result<NamedTensors> Session::Impl::outputs_of(const manifest::Step& step,
                                               const manifest::Shard& shard, Executable& executable,
                                               Chunk& chunk, const Probe& probe) {
  const std::vector<manifest::Port>& inputs = shard.widths[graph_of(shard, chunk)].inputs;
  NamedTensors by_port;
  // The destructor of `lent` returns the caches before take_output() stores new rows in them.
  BorrowedCaches lent(by_port);
  for (const InputBinding& binding : step.inputs) {
    const manifest::Port& port = manifest::port_named(inputs, binding.port);
    MOEC_ASSIGN(by_port[binding.port], input(binding, port, chunk, lent));
  }
  MOEC_TRY(put_states(shard, executable));
  return run(shard, executable, by_port, probe);
}

// Runs a router without the session's mask, and forgets its outputs after the observer has seen its
// weights.
Status Session::Impl::observe_wanted(size_t step_index, Chunk& chunk) {
  const manifest::Step& step = manifest.schedule[step_index];
  const manifest::Shard& shard = *shards[step_index];
  MOEC_ASSIGN(Executable * executable, this->executable(shard, graph_of(shard, chunk)));
  const ExpertSets before = std::exchange(mask, {});
  const auto outputs = outputs_of(step, shard, *executable, chunk, {});
  // Restored before the result is returned, so that an error does not lose the mask.
  mask = before;
  if (!outputs) return fail(outputs.error());
  if (const auto weights = outputs->find(kRoutingWeights); weights != outputs->end())
    routing.wanted(shard.layer, chunk.position, unpack_rows(weights->second, chunk.count));
  return {};
}

Status Session::Impl::run_shard(size_t step_index, Chunk& chunk, const StepProbe& probe) {
  const manifest::Step& step = manifest.schedule[step_index];
  const manifest::Shard& shard = *shards[step_index];
  // begin_experts() comes first, because it can load a router, which invalidates pointers from
  // LoadedShards.
  MOEC_TRY(begin_experts(step_index, shard, chunk));
  if (skip(step, shard, chunk)) return {};
  if (peers.absent.contains(shard.name)) return run_on_peer(step_index, chunk);
  MOEC_ASSIGN(Executable * executable, this->executable(shard, graph_of(shard, chunk)));
  MOEC_ASSIGN(const NamedTensors outputs,
              outputs_of(step, shard, *executable, chunk, probe_of(shard, chunk, probe)));
  take_states(shard, *executable, chunk);
  for (const OutputBinding& binding : step.outputs)
    if (const auto output = outputs.find(binding.port); output != outputs.end())
      take_output(binding, shard, output->second, chunk);
  if (options.peers && shard.routing)
    if (const auto weights = outputs.find(kRoutingWeights); weights != outputs.end())
      count_misses(shard, chunk, unpack_rows(weights->second, chunk.count));
  return {};
}

const manifest::Width& Session::width_of(const manifest::Shard& shard, const Chunk& chunk) const {
  return shard.widths[impl_->graph_of(shard, chunk)];
}

Status Session::run_step(size_t step, Chunk& chunk, const StepProbe& probe) {
  const manifest::Shard& shard = *impl_->shards[step];
  if (chunk.done_on_peer && step <= *chunk.done_on_peer) return {};
  const bool routes = shard.routing.has_value();
  if (impl_->routing.wanted && is_router(shard.kind)) MOEC_TRY(impl_->observe_wanted(step, chunk));
  if (impl_->routing.preference && routes) return impl_->route_by_residents(step, chunk);
  if (impl_->routing.top_k.threshold && is_router(shard.kind))
    return impl_->route_by_confidence(step, chunk, probe);
  return impl_->run_shard(step, chunk, probe);
}

std::vector<RouterAhead> Session::Impl::routers_ahead(size_t step, const Chunk& chunk,
                                                      size_t most) const {
  const auto& schedule = manifest.schedule;
  // The latest router has run in this chunk, so its inputs are in `chunk.edges` if they are edges.
  size_t now = step;
  while (now > 0 && !is_router(shards[now]->kind)) --now;
  std::vector<RouterAhead> routers;
  // The loop above can stop at step 0, which need not be a router.
  if (!is_router(shards[now]->kind)) return routers;
  for (size_t next = step + 1; next < schedule.size() && routers.size() < most; ++next) {
    if (!is_router(shards[next]->kind)) continue;
    RouterAhead ahead{next, routers.size() + 1, {}};
    for (const InputBinding& input : schedule[next].inputs) {
      const InputBinding* given = manifest::find_input(schedule[now], input.port);
      if (!given || given->source != SourceKind::edge || !chunk.edges.contains(given->edge))
        return routers;
      ahead.edges[input.port] = given->edge;
    }
    routers.push_back(std::move(ahead));
  }
  return routers;
}

}  // namespace moec
