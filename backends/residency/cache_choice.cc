#include "backends/residency/cache_choice.h"

#include <algorithm>
#include <numeric>

#include "ir/base/at.h"

namespace moec {

std::vector<int64_t> cache_aware_choice(std::span<const float> logits,
                                        const std::vector<bool>& resident, int64_t top_k,
                                        const CacheBias& bias) {
  const auto [least, most] = std::minmax_element(logits.begin(), logits.end());
  // Scaling all logits by a positive factor does not change the choice, because the range also
  // scales the bonus. The range is a double: in f32, it could overflow.
  const double bonus = bias.bias * (double{*most} - double{*least});
  // Doubles: in f32, the sum of a large logit and a small bonus could round to the logit.
  std::vector<double> raised(logits.begin(), logits.end());
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto best_first = [&](int64_t from) {
    std::stable_sort(order.begin() + from, order.end(),
                     [&](int64_t a, int64_t b) { return at(raised, a) > at(raised, b); });
  };
  // Sorts by the original logits first, so that `keep_top` experts stay chosen regardless of
  // residency.
  best_first(0);
  for (size_t e = 0; e < raised.size(); ++e)
    if (resident[e]) raised[e] += bonus;
  const int64_t kept = std::min(bias.keep_top, top_k);
  // Restores ascending ids, so that the stable sort resolves ties in favour of the lower id.
  std::sort(order.begin() + kept, order.end());
  best_first(kept);
  order.resize(static_cast<size_t>(top_k));
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace moec
