#include "frontends/jobs/compare/compare_golden.h"

#include "backends/formats/read_shard.h"
#include "frontends/measure/routing_record.h"
#include "ir/base/at.h"

namespace moec {
namespace {

// Runs the text of a golden through an export, step by step.
class GoldenComparer {
 public:
  GoldenComparer(const Golden& golden, Session& session, const CompareGoldenOptions& options);

  Status run();
  void fill(CompareReport& report) const;

 private:
  Status run_step(const GoldenStep& step);
  Status compare_logits(const GoldenStep& step, const Rows& logits);
  Status compare_routing(const GoldenStep& step);
  std::optional<int64_t> token_behind(int64_t position) const;

  const Golden& golden_;
  Session& session_;
  const CompareGoldenOptions& options_;
  std::vector<int64_t> text_;  // all tokens of the golden's steps
  PredictionComparer predictions_;
  RoutingRecord routing_;                       // of the current step
  std::map<int64_t, RoutingComparer> routers_;  // by layer
};

GoldenComparer::GoldenComparer(const Golden& golden, Session& session,
                               const CompareGoldenOptions& options)
    : golden_(golden), session_(session), options_(options) {
  for (const GoldenStep& step : golden.steps())
    // The steps of a golden continue one text, so the next token is known across steps.
    text_.insert(text_.end(), step.tokens.begin(), step.tokens.end());
}

Status GoldenComparer::run() {
  session_.reset();
  for (const GoldenStep& step : golden_.steps()) {
    MOEC_TRY(run_step(step));
    if (options_.progress) options_.progress(step.tokens.size(), text_.size(), step.name);
  }
  predictions_.end_window();
  return {};
}

Status GoldenComparer::run_step(const GoldenStep& step) {
  // Routing is compared per step, because the golden stores one tensor per step.
  routing_.clear();
  MOEC_ASSIGN(const Rows logits,
              recorded_logits(
                  session_, step.tokens, step.position,
                  [this](int64_t remaining) { return session_.chunk_size(remaining); }, routing_));
  MOEC_TRY(compare_logits(step, logits));
  return compare_routing(step);
}

// Returns the token after `position`; none at the end of the text, and for models that label
// tokens.
std::optional<int64_t> GoldenComparer::token_behind(int64_t position) const {
  if (session_.manifest().tagging || position + 1 >= std::ssize(text_)) return std::nullopt;
  return at(text_, position + 1);
}

Status GoldenComparer::compare_logits(const GoldenStep& step, const Rows& logits) {
  MOEC_ASSIGN(const Rows golden, golden_.rows(step.name + ".logits"));
  for (int64_t t = 0; t < logits.count(); ++t)
    predictions_.add(golden.row(t), logits.row(t), token_behind(step.position + t));
  return {};
}

Status GoldenComparer::compare_routing(const GoldenStep& step) {
  for (const auto& [layer, weights] : routing_.layers()) {
    MOEC_ASSIGN(const Rows golden, golden_.routing_weights(step.name, layer, weights.columns));
    for (int64_t t = 0; t < weights.count(); ++t)
      routers_[layer].add(weights.row(t), golden.row(t));
  }
  return {};
}

void GoldenComparer::fill(CompareReport& report) const {
  // A golden is one text without windows, so the whole text counts as one.
  report.window = std::ssize(text_);
  report.windows = 1;
  report.bytes = session_.manifest().tokenizer == manifest::TokenizerKind::bytes;
  report.predictions = predictions_.result();
  for (const auto& [layer, router] : routers_) report.routers.push_back({layer, router.result()});
}

}  // namespace

Result<CompareReport> compare_with_golden(const Golden& golden,
                                          const CompareGoldenOptions& options) {
  CompareReport report;
  report.shards = options.shards;
  MOEC_ASSIGN(Session session, Session::open(options.compared, read_shard, options.session));
  GoldenComparer comparer(golden, session, options);
  MOEC_TRY(comparer.run());
  comparer.fill(report);
  judge(options.limits, report);
  return report;
}

}  // namespace moec
