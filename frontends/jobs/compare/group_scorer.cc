#include "frontends/jobs/compare/group_scorer.h"

#include <map>
#include <numbers>

namespace moec {

void GroupScorer::add(std::span<const float> reference, std::span<const float> compared,
                      std::optional<int64_t> next) {
  document_.add(reference, compared, next);
}

void GroupScorer::end_document(const std::string& category) {
  // The bootstrap resamples whole documents, so each document is one window.
  document_.end_window();
  documents_.push_back({category, document_.result()});
  document_ = {};
}

CategoryScore GroupScorer::score_of(const std::string& category,
                                    const std::vector<const Document*>& documents) {
  CategoryScore score{category, documents.size()};
  std::vector<PartialSum> log_probability, kl, top1;
  for (const Document* document : documents) {
    const PredictionComparison& found = document->predictions;
    const auto tokens = static_cast<double>(found.tokens);
    // Sums, not means: bootstrap_mean() divides by the tokens of the resample, so long documents
    // weigh more.
    kl.push_back({found.kl.mean * tokens, tokens});
    top1.push_back({found.top1.mean * tokens, tokens});
    const auto next = static_cast<double>(found.bits ? found.bits->tokens : 0);
    const double bits = found.bits ? found.bits->difference.mean : 0;
    // Bits are negative log2 probabilities: the difference times -ln 2 is the difference of natural
    // logarithms.
    log_probability.push_back({-bits * std::numbers::ln2 * next, next});
    score.tokens += found.tokens;
    score.nonfinite += found.nonfinite;
    score.next_tokens += found.bits ? found.bits->tokens : 0;
  }
  score.log_probability = bootstrap_mean(log_probability);
  score.kl = bootstrap_mean(kl);
  score.top1 = bootstrap_mean(top1);
  return score;
}

std::vector<CategoryScore> GroupScorer::result() const {
  std::vector<const Document*> all;
  // A map sorts the categories by name, so the order does not depend on the documents.
  std::map<std::string, std::vector<const Document*>> categories;
  for (const Document& document : documents_) {
    all.push_back(&document);
    categories[document.category].push_back(&document);
  }
  std::vector<CategoryScore> scores = {score_of({}, all)};
  // With a single category, its score would repeat that of all documents.
  if (categories.size() > 1)
    for (const auto& [category, documents] : categories)
      scores.push_back(score_of(category, documents));
  return scores;
}

}  // namespace moec
