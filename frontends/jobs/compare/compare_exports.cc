#include "frontends/jobs/compare/compare_exports.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "backends/formats/read_shard.h"
#include "backends/runtime/session/session.h"
#include "backends/runtime/text/prompt.h"
#include "frontends/jobs/compare/compare_report.h"
#include "frontends/jobs/compare/same_checkpoint.h"
#include "frontends/jobs/compare/shards_alone.h"
#include "frontends/measure/routing_record.h"
#include "frontends/measure/run_text.h"
#include "ir/base/at.h"

namespace moec {
namespace {

// Runs windows through both exports: first through the compared export alone, for its logits, then
// through both in lockstep, each compared shard on the inputs of the reference's shard.
class ExportComparer {
 public:
  ExportComparer(Session& reference, Session& compared, bool inside)
      : reference_(reference),
        compared_(compared),
        predicts_(!reference.manifest().tagging),
        alone_(reference, compared, inside) {}

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
  const StepProbe probe = reference_routing_.probe(chunk.count());
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
  report.inside = alone_.inside();
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
  // The empty suffix matches every label.
  if (options.inside) half.watched.emplace_back();
  MOEC_ASSIGN(Session reference, Session::open(options.reference, read_shard, half));
  // Top-k applies to the compared export only; the reference keeps the model's.
  half.top_k = options.top_k;
  if (options.engine) half.engine = options.engine;
  half.cache_dtype = options.cache_dtype;
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
  ExportComparer comparer(reference, compared, options.inside);
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
