// The best legal sequence of tags (Viterbi, IEEE Transactions on Information Theory 13, 1967).
#pragma once

#include <vector>

#include "backends/runtime/bioes_tags.h"
#include "backends/runtime/session.h"

namespace moec {

// log softmax of each row.
Rows log_softmax(const Rows& logits);

// A label for each row of log probabilities, in columns by label: the sequence with the largest sum
// of log probabilities and step biases among those that begin, step and end legally. One of the
// tags is O, so there always is one. Of equal sums the lower label wins, from the last row on.
std::vector<size_t> best_labels(const Rows& log_probabilities, const std::vector<Tag>& tags,
                                const manifest::Tagging& tagging);

}  // namespace moec
