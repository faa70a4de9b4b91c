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
#include "backends/runtime/text/token_windows.h"
#include "frontends/jobs/compare/compare_report.h"
#include "frontends/jobs/compare/same_checkpoint.h"
#include "frontends/measure/routing_record.h"
#include "frontends/measure/value_labels.h"
#include "ir/base/at.h"

namespace moec {

namespace {

// Runs the shards of an export on the inputs that the same shards of a reference have.

// How far the outputs of a shard's experts are from the reference's on the same inputs.

// Outputs of experts in one step, by layer and expert, where the graph names them: an expert of its
// own, not one of a bank. They are multiplied by their routing weights and have no bias.
class ExpertOutputs {
 public:
  // Adds what a step computes for `count` tokens. It refers to this object.
  StepProbe probe(int64_t count);

  const std::map<ExpertId, Rows>& outputs() const { return outputs_; }
  void clear() { outputs_.clear(); }

 private:
  std::map<ExpertId, Rows> outputs_;
};

class ExpertErrors {
 public:
  // Adds the tokens that chose the expert in the reference: those for which its output is not zero
  // there. Experts that only one of the two names are left out.
  void add(const ExpertOutputs& compared, const ExpertOutputs& reference);
  // By layer, then by expert; also experts that no token chose.
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
  // Both sessions must outlive it.
  ShardsAlone(Session& reference, Session& compared);

  // Whether both have the same shards, with the same values between them.
  bool possible() const { return possible_; }

  // Runs tokens through the reference, and behind each of its steps the same step of the compared
  // export on the same inputs; gives the logits of the reference. Both sessions must hold the
  // caches of the tokens before. `probe` sees the values of the reference. Errors: those of
  // Session.
  Result<Rows> pass(std::span<const int64_t> tokens, int64_t position, const StepProbe& probe);

  // In schedule order; empty where it is not possible.
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
  std::vector<Watched> watched_;  // by step
  ExpertErrors experts_;
};

// An expert's output, which is multiplied by its routing weight.
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

// Whether they hold the same layers, experts and part of the vocabulary.
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
  // What a session keeps of a layer must have the same sizes; its element type may differ.
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
  for (const manifest::Step& step : reference.manifest().schedule)
    watched_.push_back({reference.manifest().find_shard(step.shard), {}, {}});
}

Result<Rows> ShardsAlone::pass(std::span<const int64_t> tokens, int64_t position,
                               const StepProbe& probe) {
  MOEC_ASSIGN(Chunk reference, reference_.begin_chunk(tokens, position));
  MOEC_ASSIGN(Chunk compared, compared_.begin_chunk(tokens, position));
  compared.edges = reference.edges;
  for (size_t step = 0; step < watched_.size(); ++step)
    MOEC_TRY(run_step(step, reference, compared, probe));
  return std::move(reference.logits);
}

// What the step computed is replaced by the reference's, so that no error reaches the next shard.
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
  const auto size = static_cast<size_t>(watched.shard->vocab_size);
  for (int64_t t = 0; t < reference.count; ++t)
    watched.output.add(compared.logits.row(t).subspan(begin, size),
                       reference.logits.row(t).subspan(begin, size), watched.shard->vocab_size);
}

// The new rows of the layers whose caches the step has changed. Keys and values are rows of a head.
void ShardsAlone::compare_cache(Watched& watched, Chunk& reference, Chunk& compared) {
  for (const auto& [layer, rows] : reference.new_rows) {
    const NewRows& other = compared.new_rows.at(layer);
    const manifest::Cache& cache = *reference_.manifest().find_cache(layer);
    if (cache.kv_heads > 0) {
      watched.cache.add(other.k, rows.k, cache.head_dim);
      watched.cache.add(other.v, rows.v, cache.value_dim);
    }
    watched.cache.add(other.history.data, rows.history.data, rows.history.columns);
    compared_.cache(layer) = reference_.cache(layer);
  }
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

// Runs windows through both exports: first through the compared one alone, as far as its logits,
// and then side by side, each shard of the compared one on the inputs of the reference's.
class ExportComparer {
 public:
  ExportComparer(Session& reference, Session& compared)
      : reference_(reference),
        compared_(compared),
        predicts_(!reference.manifest().tagging),
        alone_(reference, compared) {}

  Status add_window(std::span<const int64_t> tokens);
  void fill(CompareReport& report) const;

 private:
  int64_t chunk_size(int64_t remaining) const {
    return std::min(reference_.chunk_size(remaining), compared_.chunk_size(remaining));
  }
  Result<Rows> logits_of_compared(std::span<const int64_t> tokens);
  Result<Rows> logits_of_reference(std::span<const int64_t> tokens, int64_t position);
  void compare_logits(std::span<const int64_t> tokens, int64_t position, const Rows& reference,
                      const Rows& compared);
  void compare_routing();

  Session& reference_;
  Session& compared_;
  bool predicts_;  // the next token
  ShardsAlone alone_;
  PredictionComparer predictions_;
  RoutingRecord reference_routing_, compared_routing_;
  std::map<int64_t, RoutingComparer> routers_;  // by layer
};

Result<Rows> ExportComparer::logits_of_compared(std::span<const int64_t> tokens) {
  compared_.reset();
  MOEC_ASSIGN(Rows logits,
              recorded_logits(
                  compared_, tokens, 0, [this](int64_t remaining) { return chunk_size(remaining); },
                  compared_routing_));
  compared_.reset();
  return logits;
}

Result<Rows> ExportComparer::logits_of_reference(std::span<const int64_t> tokens,
                                                 int64_t position) {
  const StepProbe probe = reference_routing_.probe(std::ssize(tokens));
  return alone_.possible() ? alone_.pass(tokens, position, probe)
                           : reference_.pass(tokens, position, probe);
}

Status ExportComparer::add_window(std::span<const int64_t> tokens) {
  MOEC_ASSIGN(const Rows compared, logits_of_compared(tokens));
  reference_.reset();
  for (int64_t begin = 0; begin < std::ssize(tokens);) {
    const int64_t count = chunk_size(std::ssize(tokens) - begin);
    const auto chunk = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
    MOEC_ASSIGN(const Rows reference, logits_of_reference(chunk, begin));
    compare_logits(tokens, begin, reference, compared);
    begin += count;
  }
  predictions_.end_window();
  compare_routing();
  return {};
}

void ExportComparer::compare_logits(std::span<const int64_t> tokens, int64_t position,
                                    const Rows& reference, const Rows& compared) {
  for (int64_t t = 0; t < reference.count(); ++t) {
    std::optional<int64_t> next;
    if (predicts_ && position + t + 1 < std::ssize(tokens)) next = at(tokens, position + t + 1);
    predictions_.add(reference.row(t), compared.row(position + t), next);
  }
}

void ExportComparer::compare_routing() {
  for (const auto& [layer, reference] : reference_routing_.layers()) {
    const auto found = compared_routing_.layers().find(layer);
    if (found == compared_routing_.layers().end()) continue;
    const Rows& compared = found->second;
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
                               "the exports are cut into other shards, which are not compared",
                               "export both with the same target and the same cuts",
                               {}});
}

}  // namespace

Result<CompareReport> compare_exports(const CompareOptions& options) {
  SessionOptions half = options.session;
  half.memory_bytes /= 2;
  MOEC_ASSIGN(Session reference, Session::open(options.reference, read_shard, half));
  half.top_k = options.top_k;
  MOEC_ASSIGN(Session compared, Session::open(options.compared, read_shard, half));
  const Manifest &a = reference.manifest(), &b = compared.manifest();
  MOEC_TRY(check_same_checkpoint({options.reference, a}, {options.compared, b}));
  MOEC_ASSIGN(const TokenWindows text,
              read_windows({"compare", options.texts, options.tokens_file, options.reference},
                           export_tokenizer(options.reference, a),
                           std::min({options.window, longest_window(a), longest_window(b)})));
  CompareReport report;
  report.window = text.window;
  report.windows = text.windows();
  report.unused_tokens = text.unused;
  report.bytes = a.tokenizer == manifest::TokenizerKind::bytes;
  ExportComparer comparer(reference, compared);
  const auto bytes_of = [](int64_t tokens) {
    return static_cast<uint64_t>(tokens) * sizeof(int64_t);
  };
  const auto tell = [&](int64_t tokens) {
    if (options.progress) options.progress(bytes_of(tokens), bytes_of(std::ssize(text.tokens)));
  };
  tell(0);
  for (int64_t i = 0; i < report.windows; ++i) {
    const auto begin = static_cast<size_t>(i * text.window);
    MOEC_TRY(comparer.add_window(
        std::span(text.tokens).subspan(begin, static_cast<size_t>(text.window))));
    tell(text.window);
  }
  comparer.fill(report);
  report.top_k = describe_top_k(compared.top_k(), compared.top_k_counts());
  if (compared.drops()) report.drops = *compared.drops();
  judge(options.limits, report);
  return report;
}

}  // namespace moec
