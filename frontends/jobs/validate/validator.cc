#include "frontends/jobs/validate/validator.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/runtime/session/step_inputs.h"
#include "backends/runtime/text/sampler.h"
#include "frontends/measure/run_text.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

// True if a shard of this kind may compute only a part of a layer's feed-forward sum.
bool is_feed_forward_part(ShardKind kind) {
  return is_dense(kind) || is_shared_expert(kind) || is_expert_group(kind);
}

std::string golden_name(const Manifest& manifest, size_t index) {
  const manifest::Shard& shard = *manifest.find_shard(manifest.schedule[index].shard);
  switch (shard.kind) {
    case ShardKind::attention:
      return "attn_out";
    case ShardKind::router:
      return std::string(kRoutingWeights);
    case ShardKind::lm_head:
      return "logits";
    case ShardKind::moe:
    case ShardKind::layers:
      return "ffn_out";
    case ShardKind::mlp:
    case ShardKind::shared:
    case ShardKind::experts:
      break;
  }
  // Without a next step, nothing adds to the sum.
  if (index + 1 == manifest.schedule.size()) return "ffn_out";
  const manifest::Shard& next = *manifest.find_shard(manifest.schedule[index + 1].shard);
  // A following part of the same layer adds to the sum, so this output is only a partial sum.
  const bool adds_on = is_feed_forward_part(next.kind) && next.layer == shard.layer;
  return adds_on ? "" : "ffn_out";
}

Rows take_rows(const Rows& rows, int64_t begin, int64_t count) {
  const auto first = rows.data.begin() + begin * rows.columns;
  return {rows.columns, {first, first + count * rows.columns}};
}

// Returns the port of a step's output; empty if the step has none such.
std::string port_of(const manifest::Step& step, SinkKind sink, int64_t layer) {
  for (const OutputBinding& output : step.outputs)
    if (output.sink == sink && output.layer == layer) return output.port;
  return "";
}

Rows take_columns(const Rows& rows, int64_t begin, int64_t count) {
  Rows taken{count, {}};
  // Rows are contiguous, so a slice of columns copies one range per row.
  for (auto row = rows.data.begin(); row != rows.data.end(); row += rows.columns)
    taken.data.insert(taken.data.end(), row + begin, row + begin + count);
  return taken;
}

}  // namespace

Validator::Validator(Session& session, const Golden& golden,
                     const std::vector<Thresholds>& thresholds, const ValidationProgress& progress)
    : session_(session), golden_(golden), progress_(progress) {
  // One entry per step, not per shard: a shard may run in several steps.
  for (size_t i = 0; i < manifest().schedule.size(); ++i) {
    const manifest::Step& step = manifest().schedule[i];
    Watched watched;
    watched.shard = manifest().find_shard(step.shard);
    watched.step = &step;
    watched.thresholds = thresholds[i];
    watched.golden = golden_name(manifest(), i);
    for (const OutputBinding& output : step.outputs)
      if (output.sink == SinkKind::edge)
        // A step may have two outputs on edges: the router's state has a golden tensor with another
        // name.
        (output.port == kRouterState ? watched.router_state : watched.edge) = output.edge;
    watched_.push_back(std::move(watched));
  }
  runs_ = shard_runs();
}

uint64_t Validator::shard_runs() const {
  uint64_t chunks = 0;
  for (const GoldenStep& step : golden_.steps())
    for (int64_t remaining = std::ssize(step.tokens); remaining > 0; ++chunks)
      remaining -= session_.chunk_size(remaining);
  // alone() and chained() run the same chunks; greedy() feeds one chunk or more per token.
  const size_t greedy = golden_.greedy() ? golden_.greedy()->tokens.size() : 0;
  return (2 * chunks + greedy) * watched_.size();
}

void Validator::advance(uint64_t runs, const std::string& shard) const {
  if (progress_) progress_(runs, runs_, shard);
}

Status Validator::run(bool substitute) {
  session_.reset();
  const ChunkSize size = [this](int64_t remaining) { return session_.chunk_size(remaining); };
  for (const GoldenStep& step : golden_.steps())
    // The session's chunks may be shorter than a golden step.
    MOEC_TRY(each_chunk(step.tokens, 0, size, [&](const auto& tokens, int64_t begin) {
      return run_chunk(step, begin, tokens, substitute);
    }));
  return {};
}

Status Validator::run_chunk(const GoldenStep& step, int64_t begin, std::span<const int64_t> tokens,
                            bool substitute) {
  MOEC_ASSIGN(Chunk chunk, session_.begin_chunk(tokens, step.position + begin));
  // Replaces the caches before each chunk, so that errors of earlier chunks do not reach it.
  if (substitute) MOEC_TRY(fill_caches(step.position + begin));
  for (size_t i = 0; i < watched_.size(); ++i) {
    RouterWatch router;
    // Only the substituted run compares routers: in the chained run, their inputs differ from the
    // golden's.
    MOEC_TRY(
        session_.run_step(i, chunk, substitute ? router.probe(*watched_[i].shard) : StepProbe()));
    if (substitute) MOEC_TRY(compare_inside(watched_[i], router, step, begin, chunk));
    MOEC_TRY(compare_output(watched_[i], step, begin, chunk, substitute));
    advance(1, watched_[i].shard->name);
  }
  // Logits of the chained run show the accumulated error, so only that run compares them.
  return substitute ? Status() : compare_logits(step, begin, chunk);
}

// Copies the golden keys and values of the first `rows` positions into every cache. Layers without
// attention keep their history and state, which were computed from golden inputs.
Status Validator::fill_caches(int64_t rows) {
  for (const manifest::Cache& description : manifest().caches) {
    // Layers without attention have no keys and values in their caches.
    if (description.kv_heads == 0) continue;
    LayerCache& cache = session_.cache(description.layer);
    for (bool keys : {true, false}) {
      MOEC_ASSIGN(const GoldenCache golden, golden_.cache(description, keys));
      std::vector<float> first;
      for (int64_t head = 0; head < description.kv_heads; ++head) {
        // The golden has [heads, positions, size]; the cache is filled for all heads at once.
        const auto of_head = golden.rows(head, 0, rows);
        first.insert(first.end(), of_head.begin(), of_head.end());
      }
      store_cache_rows(keys ? cache.k : cache.v, cache, first, 0);
    }
    if (description.history_tokens > 0) MOEC_TRY(fill_history(description, rows));
  }
  return {};
}

// Fills a layer's history with the golden values before position `rows`; zeros before position 0.
Status Validator::fill_history(const manifest::Cache& description, int64_t rows) {
  MOEC_ASSIGN(const Rows golden, golden_.rows(fmt::format("L{:02}.history", description.layer)));
  Rows& history = session_.cache(description.layer).history;
  std::fill(history.data.begin(), history.data.end(), 0.0F);
  const int64_t known = std::min(rows, description.history_tokens);
  push_rows(history, take_rows(golden, rows - known, known));
  return {};
}

Status Validator::compare_inside(Watched& watched, const RouterWatch& router,
                                 const GoldenStep& step, int64_t begin, const Chunk& chunk) {
  const manifest::Shard& shard = *watched.shard;
  if (shard.routing) {
    MOEC_TRY(router.compare({golden_, step.name, begin, chunk.count}, shard, watched.router));
    MOEC_TRY(add_routing(watched, router, step, begin, chunk));
  }
  // Only attention and whole layers write caches.
  if (!is_attention(shard.kind) && !holds_whole_layers(shard.kind)) return {};
  for (int64_t layer = shard.layer; layer < shard.layer + shard.layers; ++layer)
    if (const auto rows = chunk.new_rows.find(layer); rows != chunk.new_rows.end())
      MOEC_TRY(compare_cache(watched, layer, rows->second, chunk));
  return {};
}

Status Validator::add_routing(const Watched& watched, const RouterWatch& router,
                              const GoldenStep& step, int64_t begin, const Chunk& chunk) {
  const manifest::Shard& shard = *watched.shard;
  for (const int64_t layer : shard.moe_layers) {
    const std::string label = RouterWatch::weights_label(shard, layer);
    MOEC_ASSIGN(const Rows golden,
                golden_.routing_weights(step.name, layer, shard.routing->experts));
    add_inside(watched, label, chunk, unpack_rows(router.value(label), chunk.count).data,
               take_rows(golden, begin, chunk.count).data);
  }
  return {};
}

Status Validator::compare_cache(Watched& watched, int64_t layer, const NewRows& new_rows,
                                const Chunk& chunk) {
  const manifest::Cache& description = *manifest().find_cache(layer);
  if (description.kv_heads == 0) return {};
  for (bool keys : {true, false}) {
    MOEC_ASSIGN(const GoldenCache golden, golden_.cache(description, keys));
    const std::span rows(keys ? new_rows.k : new_rows.v);
    std::vector<float> wanted;
    // New rows are ordered by head, so each head is a contiguous range.
    const size_t of_head = rows.size() / static_cast<size_t>(description.kv_heads);
    for (int64_t head = 0; head < description.kv_heads; ++head) {
      const auto of_golden = golden.rows(head, chunk.position, chunk.count);
      wanted.insert(wanted.end(), of_golden.begin(), of_golden.end());
    }
    watched.cache.add_rows(rows, wanted, static_cast<int64_t>(of_head) / chunk.count);
    const SinkKind sink = keys ? SinkKind::k_rows : SinkKind::v_rows;
    add_inside(watched, port_of(*watched.step, sink, layer), chunk, rows, wanted);
  }
  // Only convolved attention has a history in addition to keys and values.
  return new_rows.history.data.empty() ? Status()
                                       : compare_history(watched, layer, new_rows.history, chunk);
}

Status Validator::compare_history(Watched& watched, int64_t layer, const Rows& rows,
                                  const Chunk& chunk) {
  MOEC_ASSIGN(const Rows golden, golden_.rows(fmt::format("L{:02}.history", layer)));
  watched.cache.add_rows(rows.data, take_rows(golden, chunk.position, chunk.count).data,
                         rows.columns);
  return {};
}

Result<Rows> Validator::golden_rows(const Watched& watched, const GoldenStep& step) const {
  const manifest::Shard& shard = *watched.shard;
  if (is_router(shard.kind))
    return golden_.routing_weights(step.name, shard.layer, shard.routing->experts);
  if (!is_head(shard.kind))
    // A shard of several layers outputs the result of its last layer.
    return golden_.rows(Golden::name(step.name, shard.layer + shard.layers - 1, watched.golden));
  MOEC_ASSIGN(const Rows logits, golden_.rows(step.name + "." + watched.golden));
  // A head may be cut into slices of the vocabulary.
  return take_columns(logits, shard.vocab_begin, shard.vocab_size);
}

Status Validator::compare_output(Watched& watched, const GoldenStep& step, int64_t begin,
                                 Chunk& chunk, bool substitute) {
  if (watched.golden.empty()) return {};
  MOEC_ASSIGN(const Rows all, golden_rows(watched, step));
  const manifest::Shard& shard = *watched.shard;
  Rows wanted = take_rows(all, begin, chunk.count);
  // Without an edge, the output is a slice of the logits.
  if (watched.edge.empty()) {
    const Rows found = take_columns(chunk.logits, shard.vocab_begin, shard.vocab_size);
    Comparer& comparer = substitute ? watched.alone : watched.chained;
    comparer.add_rows(found.data, wanted.data, shard.vocab_size);
    if (substitute)
      add_inside(watched, port_of(*watched.step, SinkKind::logits, -1), chunk, found.data,
                 wanted.data);
    return {};
  }
  compare_edge(watched, watched.edge, std::move(wanted), chunk, substitute);
  if (watched.router_state.empty()) return {};
  MOEC_ASSIGN(const Rows states,
              golden_.rows(Golden::name(step.name, shard.layer + shard.layers - 1, kRouterState)));
  compare_edge(watched, watched.router_state, take_rows(states, begin, chunk.count), chunk,
               substitute);
  return {};
}

// If `substitute` is set, also replaces the edge by the golden.
void Validator::compare_edge(Watched& watched, const std::string& name, Rows golden, Chunk& chunk,
                             bool substitute) {
  Rows& edge = chunk.edges.at(name);
  (substitute ? watched.alone : watched.chained).add_rows(edge.data, golden.data, edge.columns);
  if (!substitute) return;
  for (const OutputBinding& output : watched.step->outputs)
    if (output.sink == SinkKind::edge && output.edge == name)
      add_inside(watched, output.port, chunk, edge.data, golden.data);
  edge = std::move(golden);
}

void Validator::add_inside(const Watched& watched, const std::string& port, const Chunk& chunk,
                           std::span<const float> found, std::span<const float> wanted) {
  if (!port.empty()) inside_.add(session_.width_of(*watched.shard, chunk), port, found, wanted);
}

Status Validator::compare_logits(const GoldenStep& step, int64_t begin, const Chunk& chunk) {
  MOEC_ASSIGN(const Rows golden, golden_.rows(step.name + ".logits"));
  for (int64_t t = 0; t < chunk.count; ++t) logits_.add(chunk.logits.row(t), golden.row(begin + t));
  return {};
}

Status Validator::greedy() {
  if (!golden_.greedy()) return {};
  session_.reset();
  std::vector<int64_t> feed = golden_.greedy()->prompt;
  // The first call feeds the prompt, and each further call the token that was generated.
  bool equal = true;
  for (int64_t wanted : golden_.greedy()->tokens) {
    MOEC_ASSIGN(const Rows logits, session_.feed(feed));
    const auto token = static_cast<int64_t>(argmax(logits.row(logits.count() - 1)));
    // Counts the tokens before the first difference: after it, the texts are not comparable.
    equal &= token == wanted;
    greedy_equal_ += equal;
    advance(watched_.size(), "greedy text");
    // Feeds the model's own token: the greedy text is that of the export.
    feed = {token};
  }
  return {};
}

bool Validator::passes(const ShardReport& shard) {
  const Thresholds& thresholds = shard.thresholds;
  auto close = [&](const Comparison& c) {
    return c.nonfinite == 0 && c.cosine >= thresholds.cosine &&
           c.relative_l2 <= thresholds.relative_l2 && c.worst_row <= thresholds.worst_row;
  };
  if (!close(shard.alone) || (shard.cache && !close(*shard.cache))) return false;
  // Without a router, the outputs alone decide.
  if (!shard.router) return true;
  // Multiplies instead of dividing, so that zero tokens pass.
  return static_cast<double>(shard.router->same_set) >=
         thresholds.expert_agreement * static_cast<double>(shard.router->tokens);
}

ShardReport Validator::shard_report(const Watched& watched) const {
  ShardReport shard;
  shard.shard = watched.shard->name;
  shard.thresholds = watched.thresholds;
  shard.alone = watched.alone.result();
  shard.chained = watched.chained.result();
  // Shards without caches have no comparison, which must not fail.
  if (watched.cache.result().elements > 0) shard.cache = watched.cache.result();
  if (watched.shard->routing) shard.router = watched.router.result();
  shard.passed = passes(shard);
  return shard;
}

ValidationReport Validator::report(Precision precision) const {
  ValidationReport report;
  report.precision = precision;
  report.notes = note_precision(manifest(), precision);
  report.exact = manifest().build.exact;
  report.passed = true;
  for (const Watched& watched : watched_) {
    // The limits of the whole model are those of its narrowest weights.
    if (watched.thresholds.bits < report.thresholds.bits) report.thresholds = watched.thresholds;
    // The output of a partial sum has no golden.
    if (watched.golden.empty()) continue;
    report.shards.push_back(shard_report(watched));
    report.passed &= report.shards.back().passed;
  }
  report.logits = logits_.result();
  // Multiplies instead of dividing, as in passes(), because there may be no tokens.
  report.passed &= static_cast<double>(report.logits.same_top1) >=
                   report.thresholds.top1 * static_cast<double>(report.logits.tokens);
  report.inside = inside_;
  if (golden_.greedy()) report.greedy_wanted = golden_.greedy()->tokens.size();
  report.greedy_equal = greedy_equal_;
  // Coarse weights may change a greedy text, so the table decides whether it counts.
  if (report.thresholds.greedy) report.passed &= report.greedy_equal == report.greedy_wanted;
  return report;
}

}  // namespace moec
