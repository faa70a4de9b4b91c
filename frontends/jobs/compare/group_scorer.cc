#include "frontends/jobs/compare/group_scorer.h"

#include <algorithm>
#include <map>
#include <numbers>

namespace moec {
namespace {

CategoryScore score_of(const std::string& category, const std::vector<DocumentScore>& documents) {
  CategoryScore score{category, documents.size()};
  std::vector<PartialSum> log_probability, kl, top1;
  for (const DocumentScore& document : documents) {
    const auto tokens = static_cast<double>(document.tokens);
    // Sums, not means: bootstrap_mean() divides by the tokens of the resample, so long documents
    // weigh more.
    kl.push_back({document.kl * tokens, tokens});
    top1.push_back({document.top1 * tokens, tokens});
    const auto next = static_cast<double>(document.next_tokens);
    // Bits are negative log2 probabilities: the difference times -ln 2 is the difference of natural
    // logarithms.
    log_probability.push_back({-document.bits * std::numbers::ln2 * next, next});
    score.tokens += document.tokens;
    score.nonfinite += document.nonfinite;
    score.next_tokens += document.next_tokens;
  }
  score.log_probability = bootstrap_mean(log_probability);
  score.kl = bootstrap_mean(kl);
  score.top1 = bootstrap_mean(top1);
  return score;
}

}  // namespace

void GroupScorer::add(std::span<const float> reference, std::span<const float> compared,
                      std::optional<int64_t> next) {
  document_.add(reference, compared, next);
}

void GroupScorer::end_document(int64_t number, const std::string& category) {
  // The bootstrap resamples whole documents, so each document is one window.
  document_.end_window();
  const PredictionComparison found = document_.result();
  document_ = {};
  DocumentScore score{.document = number, .category = category};
  score.tokens = found.tokens;
  score.nonfinite = found.nonfinite;
  if (found.tokens > 0) {
    score.kl = found.kl.mean;
    score.top1 = found.top1.mean;
  }
  if (found.bits && found.bits->tokens > 0) {
    score.next_tokens = found.bits->tokens;
    score.bits = found.bits->difference.mean;
  }
  documents_.push_back(std::move(score));
}

// The order matters: sums of floats and the bootstrap depend on it.
std::vector<DocumentScore> GroupScorer::documents() const {
  std::vector<DocumentScore> ordered = documents_;
  std::stable_sort(
      ordered.begin(), ordered.end(),
      [](const DocumentScore& a, const DocumentScore& b) { return a.document < b.document; });
  return ordered;
}

std::vector<CategoryScore> GroupScorer::result() const {
  const std::vector<DocumentScore> all = documents();
  // A map sorts the categories by name, so the order does not depend on the documents.
  std::map<std::string, std::vector<DocumentScore>> categories;
  for (const DocumentScore& document : all) categories[document.category].push_back(document);
  std::vector<CategoryScore> scores = {score_of({}, all)};
  // With a single category, its score would repeat that of all documents.
  if (categories.size() > 1)
    for (const auto& [category, documents] : categories)
      scores.push_back(score_of(category, documents));
  return scores;
}

}  // namespace moec
