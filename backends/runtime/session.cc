#include "backends/runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_check.h"
#include "backends/manifest/manifest_file.h"
#include "backends/reference/heads.h"
#include "backends/runtime/masked_routers.h"
#include "backends/runtime/router_ahead.h"
#include "backends/runtime/step_inputs.h"
#include "backends/weights/weight_reader.h"
#include "ir/base/at.h"
#include "ir/base/invariant.h"
#include "ir/graph/port_names.h"
#include "ir/plan/expert_runs.h"

namespace moec {
namespace {

// Opens a table file as a weight table with one tensor, so that a row can be read as a slice of it.
Result<WeightReader> open_table(const manifest::TableFile& table, const std::string& folder) {
  WeightTable weights;
  weights.files.push_back(
      {folder + "/" + table.file.path, static_cast<uint64_t>(table.file.bytes)});
  weights.tensors["table"] = {0, 0, {table.dtype, {table.rows, table.columns}}};
  return WeightReader::open(std::move(weights));
}

Result<std::vector<float>> read_row(const WeightReader& reader, int64_t row) {
  const Type& type = reader.table().find("table")->type;
  return reader.read_f32(then(tensor_view("table", type), SliceStep{0, row, 1}),
                         static_cast<uint64_t>(type.dims[1]) * sizeof(float));
}

const manifest::Port& find_port(const std::vector<manifest::Port>& ports, std::string_view name) {
  for (const manifest::Port& port : ports)
    if (port.name == name) return port;
  MOEC_CHECK(false, "the manifest was checked, yet port {} is absent", name);
}

}  // namespace

struct Session::Impl {
  std::string folder;
  ShardReader read_shard;
  SessionOptions options;
  Manifest manifest;
  std::optional<WeightReader> embedding, rope;
  Sequence sequence;
  std::unique_ptr<ExpertStore> experts;
  LoadedShards loaded{0};
  ExpertGrid grid;
  ExpertSets mask, baked, held;  // of the session, of the graphs, and of a node
  RoutingObserver observer;
  struct {
    int64_t skipped_steps = 0, tokens = 0;
  } counts;

  bool masks() const {
    return options.maskable || !options.expert_mask.empty() || !held.layers.empty();
  }
  Status read_masks();
  Status set_mask(const ExpertSets& wanted, const std::string& what);
  Result<Executor*> executor(const manifest::Shard& shard, size_t width);
  Result<Rows> rope_rows(const Chunk& chunk, SourceKind source);
  double masked_value() const;
  Result<Tensor> input(const InputBinding& binding, const manifest::Port& port, const Chunk& chunk);
  void take_output(const OutputBinding& binding, const manifest::Shard& shard, const Tensor& tensor,
                   Chunk& chunk);
  Status put_states(const manifest::Shard& shard, Executor& executor) const;
  void take_states(const manifest::Shard& shard, const Executor& executor, Chunk& chunk);
  Probe probe_of(const manifest::Shard& shard, const Chunk& chunk, const StepProbe& probe) const;
  Status open_experts();
  Status begin_experts(size_t step, const manifest::Shard& shard, Chunk& chunk);
  Status foresee_experts(const RouterAhead& router, const Chunk& chunk);
  Result<std::vector<Tensor>> run(const manifest::Shard& shard, Executor& executor,
                                  std::map<std::string, Tensor> by_port, const Probe& probe) const;
  bool skip(const manifest::Step& step, const manifest::Shard& shard, Chunk& chunk);
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session::~Session() = default;

const Manifest& Session::manifest() const { return impl_->manifest; }
int64_t Session::position() const { return impl_->sequence.position; }
int64_t Session::skipped_steps() const { return impl_->counts.skipped_steps; }
int64_t Session::tokens_run() const { return impl_->counts.tokens; }
const ExpertStore* Session::experts() const { return impl_->experts.get(); }
const LoadedShards& Session::loaded() const { return impl_->loaded; }
LayerCache& Session::cache(int64_t layer) { return impl_->sequence.caches.at(layer); }

static Status refuse_part_of_a_model(const manifest::Model& model, const std::string& folder) {
  if (model.left_out_layers == 0) return {};
  return fail("session.part_of_a_model",
              fmt::format("the folder is a trial export of the first {} of {} layers", model.layers,
                          model.layers + model.left_out_layers),
              "export the whole model, without --layers", {.file = folder});
}

static Status refuse_stage(const Manifest& manifest, const std::string& folder) {
  if (manifest.has_embedding() && manifest.has_head()) return {};
  const manifest::Node& node = *manifest.node;
  return fail("session.stage",
              fmt::format("node {} has layers {} to {} of {}: stage {} of {}, numbered from 0",
                          node.name, node.first_layer, manifest.end_layer() - 1,
                          manifest.model.layers, node.stage, node.stages),
              "a token goes through a node of each stage, 0 first: run the export that was split, "
              "or a split without stages",
              {.file = folder});
}

Diagnostics note_precision(const Manifest& manifest, Precision precision) {
  const auto routes = [](const manifest::Shard& shard) { return shard.routing.has_value(); };
  if (precision == Precision::f32 || manifest.build.dtype != DType::f32 ||
      std::none_of(manifest.shards.begin(), manifest.shards.end(), routes))
    return {};
  return {{Severity::note,
           "session.f32_routers",
           "the graphs of an export in f32 run in f16: their routers choose by rounded scores, "
           "which an export in f16 does not",
           "export with --dtype f16 to see the choices of such an export",
           {}}};
}

Result<Session> Session::open(const std::string& folder, ShardReader read_shard,
                              const SessionOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  impl->read_shard = std::move(read_shard);
  impl->options = options;
  MOEC_ASSIGN(impl->manifest, read_manifest(folder));
  MOEC_TRY(require_graphs(impl->manifest, folder));
  MOEC_TRY(refuse_part_of_a_model(impl->manifest.model, folder));
  MOEC_TRY(refuse_stage(impl->manifest, folder));
  MOEC_TRY(impl->read_masks());
  MOEC_TRY(impl->open_experts());
  MOEC_ASSIGN(impl->embedding, open_table(impl->manifest.embedding, folder));
  if (impl->manifest.rope) {
    MOEC_ASSIGN(impl->rope, open_table(impl->manifest.rope->table, folder));
  }
  Session session(std::move(impl));
  session.reset();
  return session;
}

void Session::reset() { exchange(empty_sequence()); }

Sequence Session::empty_sequence() const {
  Sequence sequence;
  for (const manifest::Cache& cache : impl_->manifest.caches) {
    const auto rows = static_cast<size_t>(cache.kv_heads * cache.rows);
    const auto history = static_cast<size_t>(cache.history_tokens * cache.history_channels);
    sequence.caches[cache.layer] = {cache.kv_heads,
                                    cache.rows,
                                    std::vector<float>(rows * static_cast<size_t>(cache.head_dim)),
                                    std::vector<float>(rows * static_cast<size_t>(cache.value_dim)),
                                    {cache.history_channels, std::vector<float>(history)}};
  }
  return sequence;
}

Sequence Session::exchange(Sequence next) {
  return std::exchange(impl_->sequence, std::move(next));
}

// Rows of a cache behind the position are masked until they are written anew.
bool Session::rewind(int64_t position) {
  MOEC_CHECK(position >= 0 && position <= impl_->sequence.position, "rewind to {} from {}",
             position, impl_->sequence.position);
  const auto has_history = [](const manifest::Cache& cache) { return cache.history_tokens > 0; };
  const auto& caches = impl_->manifest.caches;
  if (position < impl_->sequence.position && std::any_of(caches.begin(), caches.end(), has_history))
    return false;
  impl_->sequence.position = position;
  return true;
}

Status Session::Impl::read_masks() {
  MOEC_ASSIGN(held, node_experts_of(manifest));
  if (!masks()) return {};
  grid = expert_grid(manifest);
  if (grid.layers.empty())
    return fail("session.no_experts", "the model has no experts to mask", "leave out --expert-mask",
                {.file = folder});
  if (!manifest.build.exact)
    return fail(
        "session.no_choice",
        fmt::format("the export's routing is {}, which chooses no experts", manifest.build.routing),
        "export with another --routing to mask experts", {.file = folder});
  MOEC_ASSIGN(baked, expert_mask_of(manifest));
  MOEC_ASSIGN(const ExpertSets wanted,
              read_expert_mask(options.expert_mask, grid, "--expert-mask"));
  return set_mask(wanted, "--expert-mask");
}

Status Session::Impl::set_mask(const ExpertSets& wanted, const std::string& what) {
  const ExpertSets own = in_both(held, wanted);
  MOEC_TRY(check_enough(in_both(baked, own), grid, what));
  mask = own;
  return {};
}

Status Session::set_mask(const ExpertSets& mask) {
  MOEC_CHECK(impl_->options.maskable, "the session was not opened as maskable");
  return impl_->set_mask(mask, "the mask");
}

static Status check_pinned(const std::vector<ExpertKey>& pinned, const ExpertGrid& grid) {
  for (const ExpertKey& key : pinned)
    if (!std::binary_search(grid.layers.begin(), grid.layers.end(), key.layer) ||
        key.expert >= grid.experts)
      return fail("session.profile",
                  fmt::format("the profile has expert {} of layer {}, the model has none",
                              key.expert, key.layer),
                  "give a --profile of this model");
  return {};
}

Status Session::Impl::open_experts() {
  uint64_t slots = 0;
  if (options.experts) {
    MOEC_TRY(check_pinned(options.experts->pinned, expert_grid(manifest)));
    MOEC_ASSIGN(experts, ExpertStore::open(manifest, folder, *options.experts));
    slots = experts->arena_bytes();
  }
  if (slots >= options.memory_bytes)
    return fail("session.memory",
                fmt::format("the slots of experts take {} MiB, --memory is {} MiB", slots >> 20,
                            options.memory_bytes >> 20),
                "give more --memory, or less --expert-memory or --capacity");
  MOEC_ASSIGN(loaded, room_for_shards(manifest, options.memory_bytes - slots, options.sequences));
  return {};
}

// A shard is read when it first runs and stays loaded: the next token needs all of them again.
Result<Executor*> Session::Impl::executor(const manifest::Shard& shard, size_t width) {
  return loaded.get(shard.name, width, [&](uint64_t limit) -> Result<Executor> {
    MOEC_ASSIGN(LoadedShard file, read_shard(manifest, folder, shard.widths[width]));
    if (masks() && shard.routing) {
      MOEC_ASSIGN(file.shard, with_ceiling_inputs(file.shard, shard));
    }
    return Executor::create(file.shard, file.weights,
                            {.precision = options.precision,
                             .memory_limit = limit,
                             .pager = shard.kind == ShardKind::experts ? experts.get() : nullptr});
  });
}

// A row of the table holds the cosines of a position, then its sines, then the factor of its
// queries where the model has one (frontends/export/export_tables.cc writes it).
Result<Rows> Session::Impl::rope_rows(const Chunk& chunk, SourceKind source) {
  const int64_t width = manifest.rope->width();
  Rows rows{source == SourceKind::query_scale ? 1 : width, {}};
  const int64_t first = source == SourceKind::rope_cos   ? 0
                        : source == SourceKind::rope_sin ? width
                                                         : 2 * width;
  for (int64_t t = 0; t < chunk.count; ++t) {
    MOEC_ASSIGN(std::vector<float> row, read_row(*rope, chunk.position + t));
    auto begin = row.begin() + first;
    rows.data.insert(rows.data.end(), begin, begin + rows.columns);
  }
  return rows;
}

// A run that rounds an export in f32 to f16 needs the value of f16: that of f32 becomes infinite.
double Session::Impl::masked_value() const {
  if (options.precision == Precision::f32) return manifest.masked_value;
  return std::max(manifest.masked_value, masked_score(DType::f16));
}

Result<Tensor> Session::Impl::input(const InputBinding& binding, const manifest::Port& port,
                                    const Chunk& chunk) {
  switch (binding.source) {
    case SourceKind::edge:
      return pack_rows(port, chunk.edges.at(binding.edge));
    case SourceKind::rope_cos:
    case SourceKind::rope_sin:
    case SourceKind::query_scale: {
      MOEC_ASSIGN(Rows rows, rope_rows(chunk, binding.source));
      return pack_rows(port, rows);
    }
    case SourceKind::attn_mask:
      return attention_mask(
          port, {manifest.build.cache, manifest.build.context, chunk.position, chunk.count},
          binding, masked_value());
    case SourceKind::kv_write_mask:
      return write_mask(port, chunk.position, chunk.count);
    case SourceKind::k_cache:
      return cache_tensor(port, sequence.caches.at(binding.layer).k);
    case SourceKind::v_cache:
      return cache_tensor(port, sequence.caches.at(binding.layer).v);
    case SourceKind::history:
      return pack_rows(port, sequence.caches.at(binding.layer).history);
  }
  MOEC_CHECK(false, "the source of an input has no case here");
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
    case SinkKind::logits: {
      const Rows slice = unpack_rows(tensor, chunk.count);
      for (int64_t t = 0; t < chunk.count; ++t)
        std::copy_n(slice.row(t).begin(), slice.columns,
                    chunk.logits.data.begin() + t * chunk.logits.columns + shard.vocab_begin);
      return;
    }
  }
}

// The session keeps the caches, not the executors: a text may be fed by one width of a shard
// (prefill) and continued by another one (decode).
Status Session::Impl::put_states(const manifest::Shard& shard, Executor& executor) const {
  for (const manifest::Port& state : shard.states) {
    const LayerCache& cache = sequence.caches.at(shard.layer);
    const std::vector<float>& values = state.name == kKeyState ? cache.k : cache.v;
    MOEC_TRY(executor.set_state(state.name, cache_tensor(state, values)));
  }
  return {};
}

// Takes the caches that a shard has blended. The rows of this chunk are copied for callers that
// compare them.
void Session::Impl::take_states(const manifest::Shard& shard, const Executor& executor,
                                Chunk& chunk) {
  for (const manifest::Port& state : shard.states) {
    const bool keys = state.name == kKeyState;
    LayerCache& cache = sequence.caches.at(shard.layer);
    const Tensor& after = *executor.state(state.name);
    (keys ? cache.k : cache.v) = from_pages(after).data;
    NewRows& layer = chunk.new_rows[shard.layer];
    (keys ? layer.k : layer.v) = take_cache_rows(after, chunk.position, chunk.count);
  }
}

// Tells the store which experts of a layer the tokens chose, before the first of them runs.
Status Session::Impl::begin_experts(size_t step, const manifest::Shard& shard, Chunk& chunk) {
  if (!experts || shard.kind != ShardKind::experts || chunk.layer_of_experts == shard.layer)
    return {};
  chunk.layer_of_experts = shard.layer;
  for (const InputBinding& binding : manifest.schedule[step].inputs)
    if (binding.port == kRoutingWeights)
      MOEC_TRY(experts->begin_layer(shard.layer, chunk.edges.at(binding.edge)));
  if (!experts->foresees()) return {};
  const auto router = router_behind(manifest, step, chunk);
  return router ? foresee_experts(*router, chunk) : Status();
}

Status Session::Impl::foresee_experts(const RouterAhead& router, const Chunk& chunk) {
  const manifest::Shard& shard = *manifest.find_shard(router.step->shard);
  MOEC_ASSIGN(Executor * executor, this->executor(shard, chunk.width));
  std::map<std::string, Tensor> by_port;
  for (const auto& [port, edge] : router.edges)
    by_port[port] =
        pack_rows(find_port(shard.widths[chunk.width].inputs, port), chunk.edges.at(edge));
  MOEC_ASSIGN(const std::vector<Tensor> outputs, run(shard, *executor, std::move(by_port), {}));
  const Shard& body = executor->shard();
  for (size_t i = 0; i < body.outputs.size(); ++i)
    if (body.outputs[i].name == kRoutingWeights)
      experts->foresee(shard.layer, unpack_rows(outputs[i], chunk.count));
  return {};
}

// Runs a shard with the values of its ports.
Result<std::vector<Tensor>> Session::Impl::run(const manifest::Shard& shard, Executor& executor,
                                               std::map<std::string, Tensor> by_port,
                                               const Probe& probe) const {
  const Shard& body = executor.shard();
  if (masks() && shard.routing) add_ceilings(body, shard, mask, options.precision, by_port);
  std::vector<Tensor> inputs;
  for (ValueId input : body.inputs) {
    auto found = by_port.find(body.values[input].name);
    if (found == by_port.end())
      return fail("session.port",
                  fmt::format("the file has an input '{}' that the manifest does not bind",
                              body.values[input].name),
                  "export the model again",
                  {.shard = shard.name, .file = shard.widths.front().file.path});
    inputs.push_back(std::move(found->second));
  }
  return executor.run(std::move(inputs), probe);
}

// Whether the step can be skipped because no token of the chunk chose an expert of its group. Its
// output edge is then what it would add its experts to.
bool Session::Impl::skip(const manifest::Step& step, const manifest::Shard& shard, Chunk& chunk) {
  if (!options.skip_idle_groups || step.skip_from.empty()) return false;
  const Rows* routing = nullptr;
  const Rows* passed_on = nullptr;
  for (const InputBinding& binding : step.inputs) {
    if (binding.port == kRoutingWeights) routing = &chunk.edges.at(binding.edge);
    if (binding.port == step.skip_from) passed_on = &chunk.edges.at(binding.edge);
  }
  if (!routing || !passed_on) return false;
  for (int64_t t = 0; t < chunk.count; ++t)
    for (const ExpertRun& run : expert_runs(shard))
      for (int64_t e = run.first; e < run.first + run.count; ++e)
        if (at(routing->row(t), e) != 0) return false;
  for (const OutputBinding& binding : step.outputs)
    if (binding.port == step.skip_to) chunk.edges[binding.edge] = *passed_on;
  ++counts.skipped_steps;
  return true;
}

static Status check_room(int64_t tokens, const Manifest& manifest) {
  if (tokens <= manifest.build.context) return {};
  return fail(
      "session.context_full",
      fmt::format("{} tokens exceed the exported context of {}", tokens, manifest.build.context),
      "export with a larger --context, or feed fewer tokens");
}

// Without a cache all tokens must go through the model at once, because nothing of them is kept.
int64_t Session::chunk_size(int64_t remaining) const {
  const manifest::Build& build = impl_->manifest.build;
  return build.cache == CacheForm::none ? remaining : std::min(remaining, build.tokens.back());
}

Result<Chunk> Session::begin_chunk(std::span<const int64_t> tokens, int64_t position) {
  const Manifest& manifest = impl_->manifest;
  Chunk chunk;
  chunk.position = position;
  chunk.count = std::ssize(tokens);
  MOEC_TRY(check_room(position + chunk.count, manifest));
  const auto& widths = manifest.build.tokens;
  if (chunk.count > widths.back())
    return fail(
        "session.width",
        fmt::format("{} tokens must go through the model at once, the shards take at most {}",
                    chunk.count, widths.back()),
        fmt::format("export with --tokens {}", chunk.count));
  // The narrowest width that takes the tokens. Its remaining columns are padding: masked as keys,
  // and their results are dropped.
  while (widths[chunk.width] < chunk.count) ++chunk.width;
  Rows rows{manifest.embedding.columns, {}};
  for (int64_t token : tokens) {
    if (token < 0 || token >= manifest.model.vocab)
      return fail(
          "session.token",
          fmt::format("token {} is outside the vocabulary of {}", token, manifest.model.vocab),
          "token ids start at 0");
    MOEC_ASSIGN(std::vector<float> row, read_row(*impl_->embedding, token));
    rows.data.insert(rows.data.end(), row.begin(), row.end());
  }
  chunk.edges[std::string(kEmbedEdge)] = std::move(rows);
  chunk.logits = {manifest.logits.vocab,
                  std::vector<float>(static_cast<size_t>(chunk.count * manifest.logits.vocab))};
  return chunk;
}

// Refers to its arguments.
Probe Session::Impl::probe_of(const manifest::Shard& shard, const Chunk& chunk,
                              const StepProbe& probe) const {
  const bool routes = observer && shard.routing;
  if (!probe && !routes) return {};
  return [this, &shard, &chunk, &probe, routes](std::string_view label, const Tensor& value) {
    if (probe) probe(shard, label, value);
    if (!routes) return;
    if (const auto layer = routed_layer(shard, label))
      observer(*layer, chunk.position, unpack_rows(value, chunk.count));
  };
}

void Session::observe_routing(RoutingObserver observer) { impl_->observer = std::move(observer); }

Status Session::run_step(size_t step_index, Chunk& chunk, const StepProbe& probe) {
  const manifest::Step& step = impl_->manifest.schedule[step_index];
  const manifest::Shard& shard = *impl_->manifest.find_shard(step.shard);
  MOEC_TRY(impl_->begin_experts(step_index, shard, chunk));
  if (impl_->skip(step, shard, chunk)) return {};
  const manifest::Width& width = shard.widths[chunk.width];
  MOEC_ASSIGN(Executor * executor, impl_->executor(shard, chunk.width));
  std::map<std::string, Tensor> by_port;
  for (const InputBinding& binding : step.inputs) {
    const manifest::Port& port = find_port(width.inputs, binding.port);
    MOEC_ASSIGN(by_port[binding.port], impl_->input(binding, port, chunk));
  }
  MOEC_TRY(impl_->put_states(shard, *executor));
  MOEC_ASSIGN(const std::vector<Tensor> outputs, impl_->run(shard, *executor, std::move(by_port),
                                                            impl_->probe_of(shard, chunk, probe)));
  const Shard& body = executor->shard();
  impl_->take_states(shard, *executor, chunk);
  for (const OutputBinding& binding : step.outputs)
    for (size_t i = 0; i < body.outputs.size(); ++i)
      if (body.outputs[i].name == binding.port)
        impl_->take_output(binding, shard, outputs[i], chunk);
  return {};
}

Result<Rows> Session::pass(std::span<const int64_t> tokens, int64_t position,
                           const StepProbe& probe) {
  MOEC_ASSIGN(Chunk chunk, begin_chunk(tokens, position));
  for (size_t step = 0; step < impl_->manifest.schedule.size(); ++step)
    MOEC_TRY(run_step(step, chunk, probe));
  impl_->counts.tokens += chunk.count;
  return std::move(chunk.logits);
}

Result<Rows> Session::feed(std::span<const int64_t> tokens, const StepProbe& probe) {
  MOEC_TRY(check_room(impl_->sequence.position + std::ssize(tokens), impl_->manifest));
  Rows logits{impl_->manifest.logits.vocab, {}};
  while (!tokens.empty()) {
    const auto count = static_cast<size_t>(chunk_size(std::ssize(tokens)));
    MOEC_ASSIGN(const Rows rows, pass(tokens.first(count), impl_->sequence.position, probe));
    logits.data.insert(logits.data.end(), rows.data.begin(), rows.data.end());
    impl_->sequence.position += static_cast<int64_t>(count);
    tokens = tokens.subspan(count);
  }
  return logits;
}

}  // namespace moec
