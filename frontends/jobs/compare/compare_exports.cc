#include "frontends/jobs/compare/compare_exports.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/formats/read_shard.h"
#include "backends/reference/rows.h"
#include "backends/runtime/session/session.h"
#include "backends/runtime/session/step_inputs.h"
#include "backends/runtime/text/prompt.h"
#include "frontends/jobs/compare/compare_report.h"
#include "frontends/jobs/compare/same_checkpoint.h"
#include "frontends/measure/routing_record.h"
#include "frontends/measure/run_text.h"
#include "frontends/measure/value_labels.h"
#include "ir/base/at.h"

namespace moec {

namespace {

// Outputs of experts in one step, by layer and expert. Only separately computed experts have named
// outputs; experts of a bank do not. Outputs are multiplied by routing weights and have no bias.
class ExpertOutputs {
 public:
  // Returns a probe that adds a step's outputs for `count` tokens. The probe refers to this object.
  StepProbe probe(int64_t count);

  const std::map<ExpertId, Rows>& outputs() const { return outputs_; }
  void clear() { outputs_.clear(); }

 private:
  std::map<ExpertId, Rows> outputs_;
};

class ExpertErrors {
 public:
  // Adds, per expert, the tokens that picked it in the reference, which are the tokens with a
  // nonzero reference output. Skips experts that only one of the two graphs names.
  void add(const ExpertOutputs& compared, const ExpertOutputs& reference);
  // By layer, then by expert; includes experts that no token picked.
  std::vector<ComparedExpert> result() const;

 private:
  struct Sum {
    uint64_t tokens = 0;
    Comparer values;
  };

  std::map<ExpertId, Sum> experts_;
};

class ShardsAlone {
 public:
  // Both sessions must outlive the object.
  ShardsAlone(Session& reference, Session& compared);

  // True if both exports have the same shards with the same edges.
  bool possible() const { return possible_; }

  // Runs tokens through the reference and, after each step, runs the same step of the compared
  // export on the same inputs. Returns the logits of the reference. Both sessions must contain the
  // caches of the preceding tokens. `probe` receives the values of the reference. Errors: those of
  // Session.
  Result<Rows> pass(std::span<const int64_t> tokens, int64_t position, const StepProbe& probe);

  // In schedule order; empty if possible() is false.
  std::vector<ComparedShard> result() const;
  std::vector<ComparedExpert> experts() const { return experts_.result(); }

 private:
  struct Watched {
    const manifest::Shard* shard = nullptr;
    ValueComparer output, cache;
  };

  Status run_step(size_t step, Chunk& reference, Chunk& compared, const StepProbe& probe);
  void compare_logits(Watched& watched, const Chunk& reference, const Chunk& compared);
  void compare_cache(Watched& watched, Chunk& reference, Chunk& compared);

  Session& reference_;
  Session& compared_;
  bool possible_ = false;
  std::vector<Watched> watched_;  // one per step
  ExpertErrors experts_;
};

// Returns the expert whose output the label names, if any.
std::optional<ExpertId> expert_of(const manifest::Shard& shard, std::string_view label) {
  const auto inside = layer_label(shard, label);
  const auto expert = inside ? expert_label(inside->name) : std::nullopt;
  if (!expert || expert->name != "out") return std::nullopt;
  return ExpertId{inside->layer, expert->expert};
}

bool all_zero(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(), [](float v) { return v == 0; });
}

StepProbe ExpertOutputs::probe(int64_t count) {
  return [this, count](const manifest::Shard& shard, std::string_view label, const Tensor& value) {
    // unpack_rows() drops the padding after `count` tokens.
    if (const auto key = expert_of(shard, label)) outputs_[*key] = unpack_rows(value, count);
  };
}

void ExpertErrors::add(const ExpertOutputs& compared, const ExpertOutputs& reference) {
  for (const auto& [key, wanted] : reference.outputs()) {
    const auto found = compared.outputs().find(key);
    if (found == compared.outputs().end()) continue;
    Sum& sum = experts_[key];
    for (int64_t t = 0; t < wanted.count(); ++t) {
      if (all_zero(wanted.row(t))) continue;
      sum.values.add(found->second.row(t), wanted.row(t));
      ++sum.tokens;
    }
  }
}

std::vector<ComparedExpert> ExpertErrors::result() const {
  std::vector<ComparedExpert> experts;
  for (const auto& [key, sum] : experts_) experts.push_back({key, sum.tokens, sum.values.result()});
  return experts;
}

// True if both shards have the same layers, experts and slice of the vocabulary.
bool same_part(const manifest::Shard& a, const manifest::Shard& b) {
  return a.kind == b.kind && a.layer == b.layer && a.layers == b.layers && a.slice == b.slice &&
         a.slices == b.slices && a.first_expert == b.first_expert && a.experts == b.experts &&
         a.expert_ids == b.expert_ids && a.vocab_begin == b.vocab_begin &&
         a.vocab_size == b.vocab_size;
}

bool same_steps(const Manifest& a, const Manifest& b) {
  if (a.schedule != b.schedule || a.caches.size() != b.caches.size()) return false;
  for (const manifest::Step& step : a.schedule)
    if (!same_part(*a.find_shard(step.shard), *b.find_shard(step.shard))) return false;
  // A layer's state must have the same sizes in both sessions; element types may differ.
  for (const manifest::Cache& cache : a.caches) {
    const manifest::Cache* other = b.find_cache(cache.layer);
    if (!other) return false;
    manifest::Cache same = *other;
    same.dtype = cache.dtype;
    if (same != cache) return false;
  }
  return true;
}

StepProbe both(const StepProbe& first, StepProbe second) {
  return [&first, second = std::move(second)](const manifest::Shard& shard, std::string_view label,
                                              const Tensor& value) {
    if (first) first(shard, label, value);
    second(shard, label, value);
  };
}

ShardsAlone::ShardsAlone(Session& reference, Session& compared)
    : reference_(reference), compared_(compared) {
  possible_ = same_steps(reference.manifest(), compared.manifest());
  if (!possible_) return;
  // `watched_` follows the schedule, so that run_step() can index it by step.
  for (const manifest::Step& step : reference.manifest().schedule)
    watched_.push_back({reference.manifest().find_shard(step.shard), {}, {}});
}

Result<Rows> ShardsAlone::pass(std::span<const int64_t> tokens, int64_t position,
                               const StepProbe& probe) {
  MOEC_ASSIGN(Chunk reference, reference_.begin_chunk(tokens, position));
  MOEC_ASSIGN(Chunk compared, compared_.begin_chunk(tokens, position));
  // Both exports start from the reference's embeddings, so the first shard gets equal inputs.
  compared.edges = reference.edges;
  for (size_t step = 0; step < watched_.size(); ++step)
    MOEC_TRY(run_step(step, reference, compared, probe));
  return std::move(reference.logits);
}

// Replaces the step's results with the reference's, so that errors do not propagate to the next
// shard.
Status ShardsAlone::run_step(size_t step, Chunk& reference, Chunk& compared,
                             const StepProbe& probe) {
  ExpertOutputs wanted, found;
  MOEC_TRY(reference_.run_step(step, reference, both(probe, wanted.probe(reference.count))));
  MOEC_TRY(compared_.run_step(step, compared, found.probe(compared.count)));
  experts_.add(found, wanted);
  Watched& watched = watched_[step];
  bool logits = false;
  for (const OutputBinding& output : reference_.manifest().schedule[step].outputs) {
    logits |= output.sink == SinkKind::logits;
    // Edges carry hidden states. Logits and caches have other sinks and are compared below.
    if (output.sink != SinkKind::edge) continue;
    const Rows& wanted = reference.edges.at(output.edge);
    Rows& edge = compared.edges.at(output.edge);
    watched.output.add(edge.data, wanted.data, wanted.columns);
    edge = wanted;
  }
  if (logits) compare_logits(watched, reference, compared);
  compare_cache(watched, reference, compared);
  return {};
}

void ShardsAlone::compare_logits(Watched& watched, const Chunk& reference, const Chunk& compared) {
  const auto begin = static_cast<size_t>(watched.shard->vocab_begin);
  // A shard of the head writes only its slice of the vocabulary; the rest of the row is not yet
  // valid.
  const auto size = static_cast<size_t>(watched.shard->vocab_size);
  for (int64_t t = 0; t < reference.count; ++t)
    watched.output.add(compared.logits.row(t).subspan(begin, size),
                       reference.logits.row(t).subspan(begin, size), watched.shard->vocab_size);
}

// Compares the new cache rows of the layers that the step has changed: keys and values per head,
// and history.
void ShardsAlone::compare_cache(Watched& watched, Chunk& reference, Chunk& compared) {
  for (const auto& [layer, rows] : reference.new_rows) {
    // at(): same_steps() guarantees that both sessions write the same layers.
    const NewRows& other = compared.new_rows.at(layer);
    const manifest::Cache& cache = *reference_.manifest().find_cache(layer);
    // Layers with a recurrent state have no keys and values.
    if (cache.kv_heads > 0) {
      watched.cache.add(other.k, rows.k, cache.head_dim);
      watched.cache.add(other.v, rows.v, cache.value_dim);
    }
    watched.cache.add(other.history.data, rows.history.data, rows.history.columns);
    // The compared cache continues with the reference's rows, so cache errors do not accumulate.
    compared_.cache(layer) = reference_.cache(layer);
  }
  // new_rows would otherwise be compared again at the next step.
  reference.new_rows.clear();
  compared.new_rows.clear();
}

std::vector<ComparedShard> ShardsAlone::result() const {
  std::vector<ComparedShard> shards;
  for (const Watched& watched : watched_) {
    ComparedShard shard{watched.shard->name, watched.output.result(), {}};
    if (const ValueComparison cache = watched.cache.result(); cache.all.elements > 0)
      shard.cache = cache;
    shards.push_back(std::move(shard));
  }
  return shards;
}

// Runs windows through both exports: first through the compared export alone, for its logits, then
// through both in lockstep, each compared shard on the inputs of the reference's shard.
class ExportComparer {
 public:
  ExportComparer(Session& reference, Session& compared)
      : reference_(reference),
        compared_(compared),
        predicts_(!reference.manifest().tagging),
        alone_(reference, compared) {}

  // `tell` reports progress in tokens.
  Status run(const Text& text, const std::function<void(int64_t tokens)>& tell);
  void fill(CompareReport& report) const;

 private:
  int64_t chunk_size(int64_t remaining) const {
    // The smaller of both chunk sizes, so that both exports process the same tokens in one step.
    return std::min(reference_.chunk_size(remaining), compared_.chunk_size(remaining));
  }
  Result<Rows> logits_of_compared(std::span<const int64_t> tokens);
  Status run_reference(const TextChunk& chunk, std::span<const int64_t> window);
  void compare_logits(std::span<const int64_t> tokens, int64_t position, const Rows& reference);
  void compare_routing();

  Session& reference_;
  Session& compared_;
  bool predicts_;  // false: the model labels tokens
  ShardsAlone alone_;
  PredictionComparer predictions_;
  Rows compared_logits_;  // of the current window
  RoutingRecord reference_routing_, compared_routing_;
  std::map<int64_t, RoutingComparer> routers_;  // by layer
};

Result<Rows> ExportComparer::logits_of_compared(std::span<const int64_t> tokens) {
  // Resets twice: the lockstep pass starts again from an empty cache.
  compared_.reset();
  MOEC_ASSIGN(Rows logits,
              recorded_logits(
                  compared_, tokens, 0, [this](int64_t remaining) { return chunk_size(remaining); },
                  compared_routing_));
  compared_.reset();
  return logits;
}

Status ExportComparer::run_reference(const TextChunk& chunk, std::span<const int64_t> window) {
  const StepProbe probe = reference_routing_.probe(chunk.count);
  // If the schedules differ, shards cannot be compared one by one.
  MOEC_ASSIGN(const Rows reference, alone_.possible()
                                        ? alone_.pass(chunk.tokens, chunk.position, probe)
                                        : reference_.pass(chunk.tokens, chunk.position, probe));
  compare_logits(window, chunk.position, reference);
  return {};
}

Status ExportComparer::run(const Text& text, const std::function<void(int64_t tokens)>& tell) {
  const auto begin = [&](const TextChunk& chunk) -> Status {
    if (chunk.position > 0) return {};
    MOEC_ASSIGN(compared_logits_, logits_of_compared(text.tokens_of(chunk.window)));
    return {};
  };
  const auto end = [&](const TextChunk& chunk) -> Status {
    if (!chunk.ends_window) return {};
    // A window is the unit of the standard error.
    predictions_.end_window();
    compare_routing();
    compared_logits_ = {};  // freed before those of the next window exist
    tell(text.window);
    return {};
  };
  return run_text(
      reference_, text, {.begin = begin, .end = end},
      {.pass = [&](const TextChunk& chunk,
                   const StepProbe&) { return run_reference(chunk, text.tokens_of(chunk.window)); },
       .size = [this](int64_t remaining) { return chunk_size(remaining); }});
}

void ExportComparer::compare_logits(std::span<const int64_t> tokens, int64_t position,
                                    const Rows& reference) {
  for (int64_t t = 0; t < reference.count(); ++t) {
    std::optional<int64_t> next;
    // The last token of a window has no successor in `tokens`.
    if (predicts_ && position + t + 1 < std::ssize(tokens)) next = at(tokens, position + t + 1);
    predictions_.add(reference.row(t), compared_logits_.row(position + t), next);
  }
}

void ExportComparer::compare_routing() {
  for (const auto& [layer, reference] : reference_routing_.layers()) {
    const auto found = compared_routing_.layers().find(layer);
    if (found == compared_routing_.layers().end()) continue;
    const Rows& compared = found->second;
    // An export with other experts, or with padding, cannot be compared column by column.
    if (compared.columns != reference.columns || compared.count() != reference.count()) continue;
    for (int64_t t = 0; t < reference.count(); ++t)
      routers_[layer].add(compared.row(t), reference.row(t));
  }
  reference_routing_.clear();
  compared_routing_.clear();
}

void ExportComparer::fill(CompareReport& report) const {
  report.predictions = predictions_.result();
  report.shards = alone_.result();
  report.experts = alone_.experts();
  for (const auto& [layer, router] : routers_) report.routers.push_back({layer, router.result()});
  if (!alone_.possible())
    report.findings.push_back({Severity::note,
                               "compare.other_shards",
                               "shards are not compared, because the exports are cut differently",
                               "export both with the same target and the same cuts",
                               {}});
}

}  // namespace

Result<CompareReport> compare_exports(const CompareOptions& options) {
  SessionOptions half = options.session;
  // Both sessions are open at once, so each gets half of the memory.
  half.memory_bytes /= 2;
  MOEC_ASSIGN(Session reference, Session::open(options.reference, read_shard, half));
  // Top-k applies to the compared export only; the reference keeps the model's.
  half.top_k = options.top_k;
  if (options.engine) half.engine = options.engine;
  MOEC_ASSIGN(Session compared, Session::open(options.compared, read_shard, half));
  const Manifest &a = reference.manifest(), &b = compared.manifest();
  // Must precede read_windows(), which uses the reference's tokenizer for both exports.
  MOEC_TRY(check_same_checkpoint({options.reference, a}, {options.compared, b}));
  MOEC_ASSIGN(
      const Text text,
      read_windows({"compare", options.reference, options.texts, given_file(options.tokens_file)},
                   export_tokenizer(options.reference, a),
                   std::min({options.window, longest_window(a), longest_window(b)})));
  CompareReport report;
  report.window = text.window;
  report.windows = text.windows();
  report.unused_tokens = text.unused;
  report.bytes = a.tokenizer == manifest::TokenizerKind::bytes;
  ExportComparer comparer(reference, compared);
  const auto tell = [&](int64_t tokens) {
    if (options.progress) options.progress(static_cast<uint64_t>(tokens), text.tokens.size());
  };
  tell(0);
  MOEC_TRY(comparer.run(text, tell));
  comparer.fill(report);
  report.top_k = describe_top_k(compared.top_k(), compared.top_k_counts());
  if (compared.drops()) report.drops = *compared.drops();
  judge(options.limits, report);
  return report;
}

}  // namespace moec
