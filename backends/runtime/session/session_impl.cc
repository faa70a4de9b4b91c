#include "backends/runtime/session/session_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/manifest/top_k.h"
#include "ir/base/invariant.h"
#include "ir/graph/port_names.h"

namespace moec {

Result<std::vector<float>> read_table_row(const WeightReader& reader, int64_t row) {
  const Type& type = reader.table().find("table")->type;
  return reader.read_f32(then(tensor_view("table", type), SliceStep{0, row, 1}),
                         static_cast<uint64_t>(type.dims[1]) * sizeof(float));
}

Result<Rows> Session::Impl::rope_rows(int64_t position, int64_t count) const {
  Rows rows;
  if (!tables.rope) return rows;
  for (int64_t t = 0; t < count; ++t) {
    MOEC_ASSIGN(std::vector<float> row, read_table_row(*tables.rope, position + t));
    rows.columns = std::ssize(row);
    rows.data.insert(rows.data.end(), row.begin(), row.end());
  }
  return rows;
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const Manifest& Session::manifest() const { return impl_->manifest; }
int64_t Session::position() const { return impl_->sequence.position; }
int64_t Session::skipped_steps() const { return impl_->counts.skipped_steps; }
int64_t Session::tokens_run() const { return impl_->counts.tokens; }
std::shared_ptr<const ExpertStore> Session::experts() const { return impl_->experts; }
const EngineTraits& Session::engine() const { return impl_->engine->traits(); }
DType Session::cache_dtype() const { return impl_->options.cache_dtype; }
const LoadedShards& Session::loaded() const { return impl_->loaded; }
const TopKChoice& Session::top_k() const { return impl_->routing.top_k; }
const TopKCounts& Session::top_k_counts() const { return impl_->routing.top_k_counts; }
const CapacityDrops* Session::drops() const {
  return impl_->manifest.capacity ? &impl_->counts.drops : nullptr;
}
LayerCache& Session::cache(int64_t layer) { return impl_->sequence.caches.at(layer); }

Diagnostics note_precision(const Manifest& manifest, Precision precision) {
  const auto routes = [](const manifest::Shard& shard) { return shard.routing.has_value(); };
  if (precision == Precision::f32 || manifest.build.dtype != DType::f32 ||
      std::none_of(manifest.shards.begin(), manifest.shards.end(), routes))
    return {};
  return {{Severity::note,
           "session.f32_routers",
           "an f32 export runs in f16, so its routers compare rounded scores",
           "export with --dtype f16 to run its routers unrounded",
           {}}};
}

Diagnostics note_widened(const Session& session) {
  Diagnostics notes;
  for (const auto& [form, bytes] : session.loaded().widened())
    notes.push_back({Severity::note,
                     "session.no_kernel",
                     fmt::format("engine {} has no kernel for weights stored as {}, and holds them "
                                 "as {} MiB of f32",
                                 session.engine().name, form, (bytes >> 20) + 1),
                     "export with another form of --weights to keep the codes in memory",
                     {}});
  return notes;
}

void Session::reset() { exchange(empty_sequence()); }

static CacheValues empty_cache(int64_t count, DType dtype) {
  const auto size = static_cast<size_t>(count);
  CacheValues cache;
  dtype == DType::f16 ? cache.halves.resize(size) : cache.floats.resize(size);
  return cache;
}

Sequence Session::empty_sequence() const {
  Sequence sequence;
  const DType dtype = impl_->options.cache_dtype;
  for (const manifest::Cache& cache : impl_->manifest.caches) {
    const int64_t rows = cache.kv_heads * cache.rows;
    const auto history = static_cast<size_t>(cache.history_tokens * cache.history_channels);
    sequence.caches[cache.layer] = {cache.kv_heads,
                                    cache.rows,
                                    empty_cache(rows * cache.head_dim, dtype),
                                    empty_cache(rows * cache.value_dim, dtype),
                                    {cache.history_channels, std::vector<float>(history)},
                                    std::vector<float>(state_elements(cache))};
  }
  return sequence;
}

Sequence Session::exchange(Sequence next) {
  return std::exchange(impl_->sequence, std::move(next));
}

// The attention mask hides the cache rows from `position` on until new tokens overwrite them.
bool Session::rewind(int64_t position) {
  MOEC_CHECK(position >= 0 && position <= impl_->sequence.position, "rewind to {} from {}",
             position, impl_->sequence.position);
  const auto has_history = [](const manifest::Cache& cache) { return cache.history_tokens > 0; };
  const auto& caches = impl_->manifest.caches;
  // Rewinding to the current position removes no token, so it also succeeds with a history.
  if (position < impl_->sequence.position && std::any_of(caches.begin(), caches.end(), has_history))
    return false;
  impl_->sequence.position = position;
  return true;
}

int64_t Session::Impl::top_k_of(int64_t layer) const {
  const TopKVariant* form = routing.top_k.chosen();
  return form ? form->layers.at(layer) : grid.top_k;
}

size_t Session::Impl::graph_of(const manifest::Shard& shard, const Chunk& chunk) const {
  return graph_index(shard, chunk.width, manifest.build.tokens.size(), routing.top_k.chosen());
}

Status Session::Impl::set_mask(const ExpertSets& wanted, const std::string& what) {
  const ExpertSets own = in_both(fixed_masks.held, wanted);
  // The graphs also apply the mask `baked`, so only experts in both sets can be chosen.
  MOEC_TRY(check_enough(in_both(fixed_masks.baked, own), grid, what));
  mask = own;
  return {};
}

Status Session::set_mask(const ExpertSets& mask) {
  MOEC_CHECK(impl_->options.maskable, "the session was not opened as maskable");
  return impl_->set_mask(mask, "the mask");
}

static Status check_room(int64_t tokens, const Manifest& manifest) {
  if (tokens <= manifest.build.context) return {};
  return fail(
      "session.context_full",
      fmt::format("{} tokens exceed the exported context of {}", tokens, manifest.build.context),
      "export with a larger --context, or feed fewer tokens");
}

// Without a cache, no state is carried between chunks, so all tokens must run in one pass. With a
// preference for resident experts, tokens run one at a time, because the mask of a router applies
// to all tokens of a chunk.
int64_t Session::chunk_size(int64_t remaining) const {
  const manifest::Build& build = impl_->manifest.build;
  if (impl_->routing.preference) return 1;
  return !has_cache(build.cache) ? remaining : std::min(remaining, build.tokens.back());
}

Result<Chunk> Session::begin_chunk(std::span<const int64_t> tokens, int64_t position) {
  const Manifest& manifest = impl_->manifest;
  Chunk chunk;
  chunk.position = position;
  chunk.count = std::ssize(tokens);
  // feed() has checked the length of all tokens, but pass() and other callers have not.
  MOEC_TRY(check_room(position + chunk.count, manifest));
  const auto& widths = manifest.build.tokens;
  if (chunk.count > widths.back())
    return fail("session.width",
                fmt::format("{} tokens must run in one step, but the maximum token width is {}",
                            chunk.count, widths.back()),
                fmt::format("export with --tokens {}", chunk.count));
  // Select the narrowest width that fits the tokens. The columns after them are padding: masked as
  // keys, with results that are discarded.
  while (widths[chunk.width] < chunk.count) ++chunk.width;
  Rows rows{manifest.embedding.columns, {}};
  for (int64_t token : tokens) {
    if (token < 0 || token >= manifest.model.vocab)
      return fail(
          "session.token",
          fmt::format("token {} is outside the vocabulary of {}", token, manifest.model.vocab),
          "use token ids from 0 to the vocabulary size minus 1");
    MOEC_ASSIGN(std::vector<float> row, read_table_row(*impl_->tables.embedding, token));
    rows.data.insert(rows.data.end(), row.begin(), row.end());
  }
  chunk.edges[std::string(kEmbedEdge)] = std::move(rows);
  MOEC_ASSIGN(chunk.rope, impl_->rope_rows(position, chunk.count));
  chunk.logits.columns = manifest.logits.vocab;
  return chunk;
}

// Keeps the last token of a chunk, for steps that process each token by itself.
void Session::Impl::keep_last(Chunk& chunk) const {
  const auto keep = [](Rows& rows) {
    if (rows.data.empty()) return;
    rows.data.erase(rows.data.begin(), rows.data.end() - rows.columns);
  };
  for (auto& [name, rows] : chunk.edges) keep(rows);
  keep(chunk.rope);
  chunk.position += chunk.count - 1;
  chunk.count = 1;
  chunk.width = 0;
}

bool Session::Impl::is_head(const manifest::Step& step) const {
  return std::all_of(step.outputs.begin(), step.outputs.end(),
                     [](const OutputBinding& output) { return output.sink == SinkKind::logits; });
}

void Session::observe_routing(RoutingObserver observer) {
  impl_->routing.observer = std::move(observer);
}

void Session::observe_wanted(RoutingObserver observer) {
  impl_->routing.wanted = std::move(observer);
}

ExpertSets Session::available() const { return in_both(impl_->fixed_masks.baked, impl_->mask); }

Result<Rows> Session::pass(std::span<const int64_t> tokens, int64_t position,
                           const StepProbe& probe, LogitsOf wanted) {
  MOEC_ASSIGN(Chunk chunk, begin_chunk(tokens, position));
  const auto count = chunk.count;
  for (size_t step = 0; step < impl_->manifest.schedule.size(); ++step) {
    if (impl_->is_head(impl_->manifest.schedule[step]) && wanted != LogitsOf::each) {
      if (wanted == LogitsOf::none) continue;
      if (chunk.count > 1) impl_->keep_last(chunk);
    }
    MOEC_TRY(run_step(step, chunk, probe));
  }
  impl_->counts.tokens += count;
  return std::move(chunk.logits);
}

Result<Rows> Session::feed(std::span<const int64_t> tokens, const StepProbe& probe,
                           LogitsOf wanted) {
  // Checks the total length first: an overlong input must not leave some of its tokens in caches.
  MOEC_TRY(check_room(impl_->sequence.position + std::ssize(tokens), impl_->manifest));
  Rows logits{impl_->manifest.logits.vocab, {}};
  while (!tokens.empty()) {
    const auto count = static_cast<size_t>(chunk_size(std::ssize(tokens)));
    const bool is_last = count == tokens.size();
    const LogitsOf own = wanted == LogitsOf::last && !is_last ? LogitsOf::none : wanted;
    MOEC_ASSIGN(const Rows rows, pass(tokens.first(count), impl_->sequence.position, probe, own));
    logits.data.insert(logits.data.end(), rows.data.begin(), rows.data.end());
    impl_->sequence.position += static_cast<int64_t>(count);
    tokens = tokens.subspan(count);
  }
  return logits;
}

}  // namespace moec
