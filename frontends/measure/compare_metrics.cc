#include "frontends/measure/compare_metrics.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "backends/runtime/text/sampler.h"
#include "ir/base/at.h"
#include "ir/base/invariant.h"

namespace moec {

WindowMean mean_of_windows(std::span<const double> means) {
  WindowMean result;
  if (means.empty()) return result;
  const auto count = static_cast<double>(means.size());
  for (const double mean : means) result.mean += mean;
  result.mean /= count;
  if (means.size() < 2) return result;
  // The sum of squared deviations needs a second pass. The difference mean(x²) − mean(x)² would
  // cancel when the values are close.
  double squares = 0;
  for (const double mean : means) squares += (mean - result.mean) * (mean - result.mean);
  // Standard error of the mean: sqrt(s² / n), where s² has the divisor n − 1.
  result.standard_error = std::sqrt(squares / (count - 1) / count);
  return result;
}

double quantile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  // Nearest rank: the ceil(fraction · n)-th smallest value, so the result is an element of
  // `values`.
  const double rank = std::ceil(fraction * static_cast<double>(values.size()));
  const auto index = std::clamp<size_t>(static_cast<size_t>(rank), 1, values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index),
                   values.end());
  return values[index];
}

double log_probability(std::span<const float> logits, int64_t token) {
  return at(logits, token) - log_sum_exp(logits);
}

// Returns −log₂ of the probability of `token`.
static double bits_of(std::span<const float> logits, int64_t token) {
  return -log_probability(logits, token) / std::numbers::ln2;
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

void PredictionComparer::add(std::span<const float> reference, std::span<const float> compared,
                             std::optional<int64_t> next) {
  // A single NaN would turn every sum into NaN, so such tokens are only counted.
  if (!all_finite(reference) || !all_finite(compared)) {
    ++nonfinite_;
    return;
  }
  const double kl = kl_divergence(compared, reference);
  kls_.push_back(kl);
  window_.kl += kl;
  window_.same_top1 += argmax(compared) == argmax(reference);
  ++window_.tokens;
  if (!next) return;
  window_.reference_bits += bits_of(reference, *next);
  window_.compared_bits += bits_of(compared, *next);
  ++window_.next;
}

void PredictionComparer::end_window() {
  if (window_.tokens > 0) {
    // The standard error is computed from the means of windows. A window that has only non-finite
    // tokens has no mean.
    const auto tokens = static_cast<double>(window_.tokens);
    window_kl_.push_back(window_.kl / tokens);
    window_top1_.push_back(static_cast<double>(window_.same_top1) / tokens);
  }
  if (window_.next > 0) {
    const auto next = static_cast<double>(window_.next);
    window_reference_.push_back(window_.reference_bits / next);
    window_compared_.push_back(window_.compared_bits / next);
    next_ += window_.next;
  }
  window_ = {};
}

PredictionComparison PredictionComparer::result() const {
  PredictionComparison result;
  result.tokens = kls_.size();
  result.nonfinite = nonfinite_;
  result.kl = mean_of_windows(window_kl_);
  result.kl_p99 = quantile(kls_, 0.99);
  result.top1 = mean_of_windows(window_top1_);
  if (next_ == 0) return result;
  // Differences are paired per window, so the variation between windows does not enter their
  // standard error.
  std::vector<double> differences;
  for (size_t i = 0; i < window_compared_.size(); ++i)
    differences.push_back(window_compared_[i] - window_reference_[i]);
  result.bits = {next_, mean_of_windows(window_reference_), mean_of_windows(window_compared_),
                 mean_of_windows(differences)};
  return result;
}

void ValueComparer::add(std::span<const float> compared, std::span<const float> reference,
                        int64_t columns) {
  MOEC_CHECK(compared.size() == reference.size(), "compared {} elements with {}", compared.size(),
             reference.size());
  const auto width = static_cast<size_t>(columns);
  for (size_t begin = 0; width > 0 && begin + width <= compared.size(); begin += width) {
    const auto row = compared.subspan(begin, width), wanted = reference.subspan(begin, width);
    all_.add(row, wanted);
    // The cosine of all rows together would be dominated by rows with a large norm. Hence the mean
    // of the rows' cosines is kept in addition.
    Comparer of_row;
    of_row.add(row, wanted);
    cosines_ += of_row.result().cosine;
    ++rows_;
  }
}

ValueComparison ValueComparer::result() const {
  if (rows_ == 0) return {all_.result(), {}};
  return {all_.result(), cosines_ / static_cast<double>(rows_)};
}

std::vector<int64_t> RoutingComparison::never_routed() const {
  std::vector<int64_t> experts;
  for (size_t e = 0; e < chosen_by.size(); ++e)
    if (chosen_by[e] == 0) experts.push_back(static_cast<int64_t>(e));
  return experts;
}

void RoutingComparer::add(std::span<const float> compared, std::span<const float> reference) {
  MOEC_CHECK(compared.size() == reference.size(), "router widths differ");
  sum_.chosen_by.resize(reference.size());
  bool same = true;
  for (size_t e = 0; e < reference.size(); ++e) {
    // Routing weights are dense: the weight of an expert that was not chosen is exactly 0.
    const bool chosen = reference[e] != 0;
    same &= chosen == (compared[e] != 0);
    sum_.chosen_by[e] += chosen;
    // Weight that moves from one expert to another appears in two differences, hence the half.
    sum_.moved_weight += std::fabs(static_cast<double>(compared[e]) - reference[e]) / 2;
  }
  sum_.flipped_sets += !same;
  ++sum_.tokens;
}

RoutingComparison RoutingComparer::result() const {
  RoutingComparison result = sum_;
  if (result.tokens > 0) result.moved_weight /= static_cast<double>(result.tokens);
  return result;
}

}  // namespace moec
