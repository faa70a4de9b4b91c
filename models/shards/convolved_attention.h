// Compressed convolutional attention (arXiv 2510.04476), as in ZAYA1, with H query heads and K key
// heads of h channels. For a token x_t:
// - Queries and keys start as q = Wq x_t and k = Wk x_t.
// - Values are the concatenation of Vc x_t and Vd x_(t-1), then cut into K heads.
// - q and k together pass two convolutions over time with biases: the first within each channel;
//   the second within the channels of each head.
// - Each head j of q then gets (q_j + k_g(j)) / 2 added, where g(j) is the key head that it shares;
//   each head of k gets the mean of that over its query heads.
// Tokens before the first one count as zeros; the bias of Vd is added for them as well.
#pragma once

#include "models/shards/shard_scope.h"

namespace moec {

struct ConvolvedOperands {
  ValueId q, k, v;  // token tensors of H · h, K · h and K · h channels
  // Token tensor of history_channels(): q, k and Vd x of these tokens before the convolutions.
  // Later tokens need them for their convolutions and delayed values.
  ValueId new_history;
};

// `normed` is the layer's input after its norm; `history` is the same as new_history for the last
// history() tokens before these.
ConvolvedOperands convolved_operands(ShardScope& scope, ValueId normed, ValueId history);

}  // namespace moec
