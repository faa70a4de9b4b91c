#include "backends/runtime/text/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace moec {

size_t argmax(std::span<const float> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

// Returns the smallest number of leading weights that sum to at least `part` of the total.
// `weights` must be in descending order.
static size_t nucleus(const std::vector<double>& weights, double part) {
  const double wanted = part * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i)
    if ((sum += weights[i]) >= wanted) return i + 1;
  return weights.size();
}

int64_t Sampler::next(std::span<const float> logits) {
  if (options_.temperature <= 0) return static_cast<int64_t>(argmax(logits));
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (options_.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(options_.top_k)));
  std::vector<double> weights;
  for (size_t token : order)
    weights.push_back(std::exp((logits[token] - logits[order[0]]) / options_.temperature));
  if (options_.top_p < 1) weights.resize(nucleus(weights, options_.top_p));
  // Uniform draw in [0, 1) from the top bits of the generator. std::uniform_real_distribution
  // returns different numbers in different standard libraries.
  double left = static_cast<double>(random_() >> 11) * 0x1p-53 *
                std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return static_cast<int64_t>(order[i]);
  }
  return static_cast<int64_t>(order[weights.size() - 1]);
}

}  // namespace moec
