#include "frontends/jobs/compare/compare_exports.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/formats/read_shard.h"
#include "backends/runtime/text/token_windows.h"
#include "frontends/jobs/compare/same_checkpoint.h"
#include "frontends/jobs/compare/shards_alone.h"
#include "frontends/measure/routing_record.h"
#include "ir/base/at.h"

namespace moec {
namespace {

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
                           {a.tokenizer, a.model.vocab},
                           std::min({options.window, longest_window(a), longest_window(b)})));
  CompareReport report;
  report.window = text.window;
  report.windows = text.windows();
  report.unused_tokens = text.unused;
  report.bytes = a.tokenizer == TokenizerKind::bytes;
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
