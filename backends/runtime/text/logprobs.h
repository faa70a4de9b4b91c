// Log probabilities of sampled tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

struct Logprob {
  int64_t token = 0;
  double logprob = 0;  // natural logarithm of the probability
};

struct TokenLogprobs {
  Logprob chosen;
  std::vector<Logprob> top;  // likeliest first; ties: smaller id first
};

// Returns the log softmax of `logits` for the token `chosen` and for the `top` likeliest tokens.
// Ignores temperature, top-k and top-p. `chosen` is an index into `logits`; a `top` above
// logits.size() is clamped.
TokenLogprobs logprobs_of(std::span<const float> logits, int64_t chosen, int64_t top);

}  // namespace moec
