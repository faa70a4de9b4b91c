#include "backends/runtime/text/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

namespace moec {

size_t argmax(std::span<const float> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

namespace {

// The tokens from the likeliest to the least likely one, sorted only as far as they are read: a
// vocabulary has up to 262,144 tokens, of which a draw reads few.
class Ranking {
 public:
  explicit Ranking(std::span<const float> logits) : logits_(logits), order_(logits.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
  }

  size_t operator[](size_t rank) {
    while (rank >= sorted_) sort_more();
    return order_[rank];
  }

 private:
  void sort_more() {
    const auto before = [this](size_t a, size_t b) {
      const float of_a = logit(a), of_b = logit(b);
      return of_a != of_b ? of_a > of_b : a < b;
    };
    const size_t end = std::min(order_.size(), std::max<size_t>(64, 8 * sorted_));
    const auto first = order_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    const auto last = order_.begin() + static_cast<std::ptrdiff_t>(end);
    std::nth_element(first, last, order_.end(), before);
    std::sort(first, last, before);
    sorted_ = end;
  }

  // NaN has no order, which sort() requires, so it comes last.
  float logit(size_t token) const {
    const float logit = logits_[token];
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
  }

  std::span<const float> logits_;
  std::vector<size_t> order_;
  size_t sorted_ = 0;
};

}  // namespace

int64_t Sampler::next(std::span<const float> logits) {
  if (options_.temperature <= 0) return static_cast<int64_t>(argmax(logits));
  Ranking ranking(logits);
  const float most = logits[ranking[0]];
  const auto weight = [&](size_t token) {
    return std::exp((logits[token] - most) / options_.temperature);
  };
  size_t count = logits.size();  // of the tokens to choose from
  if (options_.top_k > 0) count = std::min(count, static_cast<size_t>(options_.top_k));
  double total = 0;
  for (size_t i = 0; i < count; ++i) total += weight(count < logits.size() ? ranking[i] : i);
  if (options_.top_p < 1) {
    const double wanted = options_.top_p * total;
    total = weight(ranking[0]);
    size_t kept = 1;
    for (; kept < count && total < wanted; ++kept) total += weight(ranking[kept]);
    count = kept;
  }
  // Uniform draw in [0, 1) from the top bits of the generator. std::uniform_real_distribution
  // returns different numbers in different standard libraries.
  double left = static_cast<double>(random_() >> 11) * 0x1p-53 * total;
  for (size_t i = 0; i < count; ++i) {
    left -= weight(ranking[i]);
    if (left < 0) return static_cast<int64_t>(ranking[i]);
  }
  return static_cast<int64_t>(ranking[count - 1]);
}

}  // namespace moec
