#include "frontends/measure/logit_divergence.h"

#include <algorithm>
#include <cmath>

namespace moec {

void LogitDivergence::Sum::rescale(double next) {
  if (next <= largest) return;
  const double factor = std::exp(largest - next);
  sum *= factor;
  cross *= factor;
  largest = next;
}

void LogitDivergence::add(std::span<const float> reference, std::span<const float> other) {
  if (reference.empty()) return;
  const auto most_of = [](std::span<const float> logits) {
    return static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  };
  if (!begun_) {
    reference_.largest = most_of(reference);
    other_.largest = most_of(other);
    begun_ = true;
  }
  reference_.rescale(most_of(reference));
  other_.rescale(most_of(other));
  for (size_t i = 0; i < reference.size(); ++i) {
    const auto x = static_cast<double>(reference[i]), y = static_cast<double>(other[i]);
    const double weight = std::exp(x - reference_.largest);
    reference_.sum += weight;
    reference_.cross += weight * (x - y);
    other_.sum += std::exp(y - other_.largest);
  }
}

double LogitDivergence::kl() const {
  if (!begun_) return 0;
  const double normalizers =
      other_.largest + std::log(other_.sum) - reference_.largest - std::log(reference_.sum);
  const double kl = reference_.cross / reference_.sum + normalizers;
  return kl < 0 ? 0 : kl;  // NaN stays
}

}  // namespace moec
