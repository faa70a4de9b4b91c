#include "frontends/jobs/validate/validate_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/formats/read_shard.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/top_k.h"
#include "backends/runtime/session/step_inputs.h"
#include "backends/runtime/text/sampler.h"
#include "frontends/jobs/validate/router_watch.h"
#include "ir/analysis/code_bits.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

// A step of the schedule, the golden tensor of its output, and the comparisons so far.
struct Watched {
  const manifest::Shard* shard = nullptr;
  Thresholds thresholds;
  std::string edge;          // of the compared output; empty for logits
  std::string router_state;  // the edge of a router's state, where there is one
  std::string golden;        // the tensor's name in a layer; empty for a partial sum of a
                             // feed-forward part, which has no golden
  Comparer alone, cache, chained;
  RouterComparer router;
};

// Whether shards of this kind may each hold a part of a layer's feed-forward sum.
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
  if (index + 1 == manifest.schedule.size()) return "ffn_out";
  const manifest::Shard& next = *manifest.find_shard(manifest.schedule[index + 1].shard);
  const bool adds_on = is_feed_forward_part(next.kind) && next.layer == shard.layer;
  return adds_on ? "" : "ffn_out";
}

Rows take_rows(const Rows& rows, int64_t begin, int64_t count) {
  const auto first = rows.data.begin() + begin * rows.columns;
  return {rows.columns, {first, first + count * rows.columns}};
}

Rows take_columns(const Rows& rows, int64_t begin, int64_t count) {
  Rows taken{count, {}};
  for (auto row = rows.data.begin(); row != rows.data.end(); row += rows.columns)
    taken.data.insert(taken.data.end(), row + begin, row + begin + count);
  return taken;
}

class Validator {
 public:
  // The thresholds of each step of the schedule.
  Validator(Session& session, const Golden& golden, const std::vector<Thresholds>& thresholds);

  // Runs each shard on golden inputs: as soon as the output of a step has been compared, it is
  // replaced by the golden one, so that an error does not reach the next shard.
  Status alone() { return run(true); }
  Status chained() { return run(false); }
  Status greedy();
  ValidationReport report(Precision precision) const;

 private:
  Status run(bool substitute);
  Status run_chunk(const GoldenStep& step, int64_t begin, int64_t count, bool substitute);
  Status compare_inside(Watched& watched, const RouterWatch& router, const GoldenStep& step,
                        int64_t begin, const Chunk& chunk);
  Status compare_cache(Watched& watched, int64_t layer, const NewRows& new_rows,
                       const Chunk& chunk);
  Status compare_output(Watched& watched, const GoldenStep& step, int64_t begin, Chunk& chunk,
                        bool substitute);
  Status compare_logits(const GoldenStep& step, int64_t begin, const Chunk& chunk);
  Status compare_history(Watched& watched, int64_t layer, const Rows& rows, const Chunk& chunk);
  static void compare_edge(const std::string& name, const Rows& all, int64_t begin,
                           Comparer& comparer, Chunk& chunk, bool substitute);
  Result<Rows> golden_rows(const Watched& watched, const GoldenStep& step) const;
  Status fill_caches(int64_t rows);
  Status fill_history(const manifest::Cache& description, int64_t rows);
  static bool passes(const ShardReport& shard);
  ShardReport shard_report(const Watched& watched) const;

  const Manifest& manifest() const { return session_.manifest(); }

  Session& session_;
  const Golden& golden_;
  std::vector<Watched> watched_;  // by step of the schedule
  LogitComparer logits_;
  size_t greedy_equal_ = 0;
};

Validator::Validator(Session& session, const Golden& golden,
                     const std::vector<Thresholds>& thresholds)
    : session_(session), golden_(golden) {
  for (size_t i = 0; i < manifest().schedule.size(); ++i) {
    const manifest::Step& step = manifest().schedule[i];
    Watched watched;
    watched.shard = manifest().find_shard(step.shard);
    watched.thresholds = thresholds[i];
    watched.golden = golden_name(manifest(), i);
    for (const OutputBinding& output : step.outputs)
      if (output.sink == SinkKind::edge)
        (output.port == kRouterState ? watched.router_state : watched.edge) = output.edge;
    watched_.push_back(std::move(watched));
  }
}

Status Validator::run(bool substitute) {
  session_.reset();
  for (const GoldenStep& step : golden_.steps()) {
    const auto tokens = std::ssize(step.tokens);
    for (int64_t begin = 0; begin < tokens;) {
      const int64_t count = session_.chunk_size(tokens - begin);
      MOEC_TRY(run_chunk(step, begin, count, substitute));
      begin += count;
    }
  }
  return {};
}

Status Validator::run_chunk(const GoldenStep& step, int64_t begin, int64_t count, bool substitute) {
  const auto tokens =
      std::span(step.tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
  MOEC_ASSIGN(Chunk chunk, session_.begin_chunk(tokens, step.position + begin));
  if (substitute) MOEC_TRY(fill_caches(step.position + begin));
  for (size_t i = 0; i < watched_.size(); ++i) {
    RouterWatch router;
    MOEC_TRY(
        session_.run_step(i, chunk, substitute ? router.probe(*watched_[i].shard) : StepProbe()));
    if (substitute) MOEC_TRY(compare_inside(watched_[i], router, step, begin, chunk));
    MOEC_TRY(compare_output(watched_[i], step, begin, chunk, substitute));
  }
  return substitute ? Status() : compare_logits(step, begin, chunk);
}

// Puts the golden keys and values of the first `rows` positions into every cache. Layers without
// attention keep their own history and state, which come from golden inputs alone.
Status Validator::fill_caches(int64_t rows) {
  for (const manifest::Cache& description : manifest().caches) {
    if (description.kv_heads == 0) continue;
    LayerCache& cache = session_.cache(description.layer);
    for (bool keys : {true, false}) {
      MOEC_ASSIGN(const GoldenCache golden, golden_.cache(description, keys));
      std::vector<float> first;
      for (int64_t head = 0; head < description.kv_heads; ++head) {
        const auto of_head = golden.rows(head, 0, rows);
        first.insert(first.end(), of_head.begin(), of_head.end());
      }
      store_cache_rows(keys ? cache.k : cache.v, cache, first, 0);
    }
    if (description.history_tokens > 0) MOEC_TRY(fill_history(description, rows));
  }
  return {};
}

// The golden history of the positions before `rows`, zeros where there are none.
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
  if (shard.routing)
    MOEC_TRY(router.compare({golden_, step.name, begin, chunk.count}, shard, watched.router));
  if (!is_attention(shard.kind) && !holds_whole_layers(shard.kind)) return {};
  for (int64_t layer = shard.layer; layer < shard.layer + shard.layers; ++layer)
    if (const auto rows = chunk.new_rows.find(layer); rows != chunk.new_rows.end())
      MOEC_TRY(compare_cache(watched, layer, rows->second, chunk));
  return {};
}

Status Validator::compare_cache(Watched& watched, int64_t layer, const NewRows& new_rows,
                                const Chunk& chunk) {
  const manifest::Cache& description = *manifest().find_cache(layer);
  if (description.kv_heads == 0) return {};
  for (bool keys : {true, false}) {
    MOEC_ASSIGN(const GoldenCache golden, golden_.cache(description, keys));
    const std::span rows(keys ? new_rows.k : new_rows.v);
    const size_t of_head = rows.size() / static_cast<size_t>(description.kv_heads);
    for (int64_t head = 0; head < description.kv_heads; ++head)
      watched.cache.add_rows(rows.subspan(static_cast<size_t>(head) * of_head, of_head),
                             golden.rows(head, chunk.position, chunk.count),
                             static_cast<int64_t>(of_head) / chunk.count);
  }
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
    return golden_.rows(Golden::name(step.name, shard.layer + shard.layers - 1, watched.golden));
  MOEC_ASSIGN(const Rows logits, golden_.rows(step.name + "." + watched.golden));
  return take_columns(logits, shard.vocab_begin, shard.vocab_size);
}

Status Validator::compare_output(Watched& watched, const GoldenStep& step, int64_t begin,
                                 Chunk& chunk, bool substitute) {
  if (watched.golden.empty()) return {};
  MOEC_ASSIGN(const Rows all, golden_rows(watched, step));
  Comparer& comparer = substitute ? watched.alone : watched.chained;
  const manifest::Shard& shard = *watched.shard;
  if (watched.edge.empty()) {
    comparer.add_rows(take_columns(chunk.logits, shard.vocab_begin, shard.vocab_size).data,
                      take_rows(all, begin, chunk.count).data, shard.vocab_size);
    return {};
  }
  compare_edge(watched.edge, all, begin, comparer, chunk, substitute);
  if (watched.router_state.empty()) return {};
  MOEC_ASSIGN(const Rows states,
              golden_.rows(Golden::name(step.name, shard.layer + shard.layers - 1, kRouterState)));
  compare_edge(watched.router_state, states, begin, comparer, chunk, substitute);
  return {};
}

void Validator::compare_edge(const std::string& name, const Rows& all, int64_t begin,
                             Comparer& comparer, Chunk& chunk, bool substitute) {
  Rows golden = take_rows(all, begin, chunk.count);
  Rows& edge = chunk.edges.at(name);
  comparer.add_rows(edge.data, golden.data, edge.columns);
  if (substitute) edge = std::move(golden);
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
  bool equal = true;
  for (int64_t wanted : golden_.greedy()->tokens) {
    MOEC_ASSIGN(const Rows logits, session_.feed(feed));
    const auto token = static_cast<int64_t>(argmax(logits.row(logits.count() - 1)));
    equal &= token == wanted;
    greedy_equal_ += equal;
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
  if (!shard.router) return true;
  return static_cast<double>(shard.router->same_set) >=
         thresholds.expert_agreement * static_cast<double>(shard.router->tokens);
}

ShardReport Validator::shard_report(const Watched& watched) const {
  ShardReport shard;
  shard.shard = watched.shard->name;
  shard.thresholds = watched.thresholds;
  shard.alone = watched.alone.result();
  shard.chained = watched.chained.result();
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
    if (watched.thresholds.bits < report.thresholds.bits) report.thresholds = watched.thresholds;
    if (watched.golden.empty()) continue;
    report.shards.push_back(shard_report(watched));
    report.passed &= report.shards.back().passed;
  }
  report.logits = logits_.result();
  report.passed &= static_cast<double>(report.logits.same_top1) >=
                   report.thresholds.top1 * static_cast<double>(report.logits.tokens);
  if (golden_.greedy()) report.greedy_wanted = golden_.greedy()->tokens.size();
  report.greedy_equal = greedy_equal_;
  if (report.thresholds.greedy) report.passed &= report.greedy_equal == report.greedy_wanted;
  return report;
}

// Of each step of the schedule. The codes are those of the files, whatever the manifest says.
Result<std::vector<Thresholds>> thresholds_of_steps(const Manifest& manifest,
                                                    const std::string& folder, Precision precision,
                                                    const ThresholdTable& table) {
  const bool half = precision == Precision::f16 || manifest.build.dtype == DType::f16;
  std::vector<Thresholds> thresholds;
  for (const manifest::Step& step : manifest.schedule) {
    const manifest::Shard& shard = *manifest.find_shard(step.shard);
    MOEC_ASSIGN(const LoadedShard loaded, read_shard(manifest, folder, shard.widths.front()));
    const int64_t bits = fewest_code_bits(loaded.shard).value_or(half ? 16 : 32);
    thresholds.push_back(table.of_bits(bits));
  }
  return thresholds;
}

Status refuse_other_model(const Manifest& manifest, const Golden& golden) {
  const std::string& config = manifest.model.config_digest;
  if (config.empty() || config == golden.config_digest()) return {};
  return fail(
      "golden.other_model",
      fmt::format("the golden was made with a config.json of digest {}, the export with one of "
                  "digest {}",
                  golden.config_digest(), manifest.model.config_digest),
      "give the golden of this model, or export the golden's model", {.file = golden.folder()});
}

// The form of top-k that runs must be that of the golden; by confidence there is none, and the
// golden is to show how far that leads.
Status refuse_other_top_k(const Session& session, const Golden& golden) {
  const Manifest& manifest = session.manifest();
  const TopKChoice& choice = session.top_k();
  if (choice.threshold) return {};
  const ExpertGrid grid = manifest.top_k ? top_k_grid(manifest) : expert_grid(manifest);
  TopKForm wanted;
  if (!grid.layers.empty()) wanted = uniform_form(grid, grid.top_k);
  if (!golden.top_k().empty()) {
    MOEC_ASSIGN(const auto forms, parse_top_k_forms(golden.top_k(), grid, golden.folder()));
    wanted = forms.front();
  }
  const TopKForm runs = choice.chosen()       ? *choice.chosen()
                        : grid.layers.empty() ? TopKForm()
                                              : uniform_form(grid, grid.top_k);
  if (runs == wanted) return {};
  return fail("golden.other_top_k",
              fmt::format("the golden is of top-k {}, the run of top-k {}", wanted.name, runs.name),
              fmt::format("give --top-k '{}' if the export has this form, or make a golden with "
                          "scripts/make_golden.py --top-k '{}'",
                          wanted.name, runs.name),
              {.file = golden.folder()});
}

// A golden is of all experts. Whoever asks for a mask wants to know how far it leads from it.
Status refuse_unasked_mask(const Manifest& manifest, const std::string& folder,
                           const SessionOptions& options) {
  if (manifest.build.expert_mask.empty() || !options.expert_mask.empty()) return {};
  return fail("validate.masked",
              fmt::format("the export leaves experts out ({}), which the golden results have",
                          manifest.build.expert_mask),
              "give the mask as --expert-mask, too, to see how far the results are from those of "
              "all experts; to validate, export without a mask",
              {.file = folder});
}

Diagnostics note_mask(const Manifest& manifest, const SessionOptions& options) {
  const bool part = manifest.node && !manifest.node->experts.empty();
  if (options.expert_mask.empty() && !part) return {};
  return {{Severity::note,
           "validate.masked",
           "the golden results are those of all experts: where a token would choose one that the "
           "mask or the node leaves out, results differ",
           "moec compare OUT --groups tells what that costs on a text",
           {}}};
}

}  // namespace

Result<ValidationReport> validate_model(const std::string& folder, const Golden& golden,
                                        const SessionOptions& options,
                                        const ThresholdTable& thresholds) {
  SessionOptions watching = options;
  watching.watched = {std::string(kRouterLogits), std::string(kRoutingWeights)};
  MOEC_ASSIGN(Session session, Session::open(folder, read_shard, watching));
  MOEC_TRY(refuse_other_model(session.manifest(), golden));
  MOEC_TRY(refuse_other_top_k(session, golden));
  MOEC_TRY(refuse_unasked_mask(session.manifest(), folder, options));
  MOEC_ASSIGN(const std::vector<Thresholds> of_steps,
              thresholds_of_steps(session.manifest(), folder, options.precision, thresholds));
  Validator validator(session, golden, of_steps);
  MOEC_TRY(validator.alone());
  MOEC_TRY(validator.chained());
  MOEC_TRY(validator.greedy());
  ValidationReport report = validator.report(options.precision);
  report.engine = session.engine().name;
  report.device = session.engine().device;
  report.top_k = describe_top_k(session.top_k(), session.top_k_counts());
  if (session.drops()) report.drops = *session.drops();
  const Diagnostics notes = note_mask(session.manifest(), options);
  report.notes.insert(report.notes.end(), notes.begin(), notes.end());
  return report;
}

}  // namespace moec
