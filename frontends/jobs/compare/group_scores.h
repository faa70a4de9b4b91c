// What leaving out experts costs on documents of several categories.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/measure/compare_metrics.h"
#include "ir/base/bootstrap.h"

namespace moec {

// The category of documents that were given without one.
inline constexpr const char* kTextCategory = "text";

// Documents of one category, or of all. The means are over their tokens, with bounds over the
// documents.
struct CategoryScore {
  std::string category;  // empty: all of them
  size_t documents = 0;
  uint64_t tokens = 0;       // positions whose predictions were compared
  uint64_t nonfinite = 0;    // positions left out because a logit of either is NaN or infinite
  uint64_t next_tokens = 0;  // positions whose next token is known
  // ln of the probability of the token that follows, compared minus reference: below 0 where the
  // compared predictions are worse.
  BootstrapMean log_probability;
  BootstrapMean kl;    // KL(reference || compared), nats
  BootstrapMean top1;  // the fraction of positions whose likeliest token is the reference's
};

// Collects the documents of one group.
class GroupScorer {
 public:
  // A position; `next` is the token that follows in the document, if there is one.
  void add(std::span<const float> reference, std::span<const float> compared,
           std::optional<int64_t> next);
  // Behind the last position of each document.
  void end_document(const std::string& category);
  // Of all documents first, then by category, where there are several.
  std::vector<CategoryScore> result() const;

 private:
  struct Document {
    std::string category;
    PredictionComparison predictions;
  };
  static CategoryScore score_of(const std::string& category,
                                const std::vector<const Document*>& documents);

  PredictionComparer document_;
  std::vector<Document> documents_;
};

}  // namespace moec
