#include "backends/runtime/text/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moec {

TokenLogprobs logprobs_of(std::span<const float> logits, int64_t chosen, int64_t top) {
  // Subtract the largest logit so that no exponential overflows.
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double log_sum = std::log(sum);
  const auto logprob = [&](int64_t token) -> Logprob {
    return {token, (logits[static_cast<size_t>(token)] - largest) - log_sum};
  };
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept = order.begin() + std::min<int64_t>(top, std::ssize(order));
  // The id breaks ties, because partial_sort() is not stable.
  std::partial_sort(order.begin(), kept, order.end(), [&](int64_t a, int64_t b) {
    const float of_a = logits[static_cast<size_t>(a)], of_b = logits[static_cast<size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  TokenLogprobs found{logprob(chosen), {}};
  std::transform(order.begin(), kept, std::back_inserter(found.top), logprob);
  return found;
}

}  // namespace moec
