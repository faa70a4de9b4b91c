// Decodes the best legal sequence of tags (Viterbi, IEEE Transactions on Information Theory 13,
// 1967).
#pragma once

#include <vector>

#include "backends/reference/rows.h"
#include "backends/runtime/text/span_tags.h"

namespace moec {

// The log softmax of each row, whose values must be finite; so are the results.
Rows log_softmax(const Rows& logits);

// A label for each row of log probabilities [tokens, labels]: the sequence with the largest sum of
// log probabilities and transition biases among the legal ones. One of the tags is O, so there
// always is a legal sequence. Of equal sums the lower label wins, from the last row on.
std::vector<size_t> best_labels(const Rows& log_probabilities, const std::vector<Tag>& tags,
                                const manifest::Tagging& tagging);

}  // namespace moec
