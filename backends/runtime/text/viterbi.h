// Decodes the best legal sequence of tags (Viterbi, IEEE Transactions on Information Theory 13,
// 1967).
#pragma once

#include <vector>

#include "backends/reference/rows.h"
#include "backends/runtime/text/span_tags.h"

namespace moec {

// Returns the log softmax of each row. All inputs must be finite; all results are then finite too.
Rows log_softmax(const Rows& logits);

// Returns one label per row of `log_probabilities` [tokens, labels]: the legal sequence with the
// largest sum of log probabilities and transition biases. `tags` must contain O, so a legal
// sequence always exists. Ties go to the lower label, decided from the last row to the first.
std::vector<size_t> best_labels(const Rows& log_probabilities, const std::vector<Tag>& tags,
                                const manifest::Tagging& tagging);

}  // namespace moec
