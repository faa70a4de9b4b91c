// Scores of the predictions with a group of experts, by document and category.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frontends/measure/compare_metrics.h"
#include "ir/base/bootstrap.h"

namespace moec {

// Scores of the documents of one category, or of all. Means are over tokens; bounds are over
// documents.
struct CategoryScore {
  std::string category;  // empty: all categories
  size_t documents = 0;
  uint64_t tokens = 0;       // compared positions
  uint64_t nonfinite = 0;    // positions skipped because a logit is NaN or infinite
  uint64_t next_tokens = 0;  // positions with a known next token
  // Natural logarithm of the next token's probability, compared minus reference: negative if the
  // compared predictions are worse.
  BootstrapMean log_probability;
  BootstrapMean kl;    // KL(reference || compared), nats
  BootstrapMean top1;  // fraction of positions with the reference's most likely token
};

// The scores of one document. Means are over its tokens; 0 without tokens.
struct DocumentScore {
  int64_t document = 0;  // number among all documents
  std::string category;
  uint64_t tokens = 0, nonfinite = 0, next_tokens = 0;  // as in CategoryScore
  double kl = 0, top1 = 0;
  double bits = 0;  // compared - reference, per next token
  bool operator==(const DocumentScore&) const = default;
};

// Collects the scores of one group.
class GroupScorer {
 public:
  // Adds a position; `next` is the document's next token, if any.
  void add(std::span<const float> reference, std::span<const float> compared,
           std::optional<int64_t> next);
  // Ends a document. Call it after the last position of the document.
  void end_document(int64_t number, const std::string& category);
  // Adds a document that another process has scored.
  void add(DocumentScore document) { documents_.push_back(std::move(document)); }
  // The scores of each document, ordered by number.
  std::vector<DocumentScore> documents() const;
  // Scores of all documents first; then, if there are several categories, per category.
  std::vector<CategoryScore> result() const;

 private:
  PredictionComparer document_;
  std::vector<DocumentScore> documents_;
};

}  // namespace moec
