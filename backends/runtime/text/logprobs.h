// Log probabilities of sampled tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

struct Logprob {
  int64_t token = 0;
  double logprob = 0;  // natural logarithm of the token's probability
};

struct TokenLogprobs {
  Logprob chosen;
  std::vector<Logprob> top;  // the likeliest tokens, the likeliest first; of equals the smaller id
};

// The log probabilities of the softmax of `logits`: without temperature, top-k and top-p. `chosen`
// is an index into `logits`, `top` at most their number.
TokenLogprobs logprobs_of(std::span<const float> logits, int64_t chosen, int64_t top);

}  // namespace moec
