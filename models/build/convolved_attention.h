// Compressed convolutional attention (arXiv 2510.04476), as ZAYA1 has it. Of a token x_t, with H
// and K heads of h channels: q = Wq x, k = Wk x, and two halves of the values, Vc x_t and Vd
// x_(t-1), in front of each other and then cut into K heads. q and k together pass two convolutions
// over time, one over each channel and one over the channels of each head, both with biases. To
// what comes out is added, for each head j of q, (q_j + k_g(j)) / 2 with g(j) its head of k, and
// for each head of k the mean of that over its heads of q. Before the first token all is zero, but
// for the bias of Vd.
#pragma once

#include "models/build/shard_scope.h"

namespace moec {

struct ConvolvedOperands {
  ValueId q, k, v;  // token tensors of H · h, K · h and K · h channels
  // Token tensor of history_channels(): what the convolutions and the delayed values of later
  // tokens need of these, q, k and Vd x.
  ValueId new_history;
};

// Of the layer's input after its norm and of the history of the tokens before, a token tensor of
// history() tokens.
ConvolvedOperands convolved_operands(ShardScope& scope, ValueId normed, ValueId history);

}  // namespace moec
