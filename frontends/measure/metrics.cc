#include "frontends/measure/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/runtime/text/sampler.h"
#include "ir/base/invariant.h"

namespace moec {

void Comparer::add(std::span<const float> x, std::span<const float> y) {
  MOEC_CHECK(x.size() == y.size(), "compared {} elements with {}", x.size(), y.size());
  // The sums run over all calls, so the row's own sums are the differences to these copies.
  const double difference_before = difference_, norm_before = yy_;
  for (size_t i = 0; i < x.size(); ++i, ++elements_) {
    // A non-finite element is counted instead of added, because it would make every sum NaN.
    if (!std::isfinite(x[i])) {
      ++nonfinite_;
      continue;
    }
    const double a = x[i], b = y[i], error = std::fabs(a - b);
    xy_ += a * b;
    xx_ += a * a;
    yy_ += b * b;
    difference_ += error * error;
    max_x_ = std::max(max_x_, std::fabs(a));
    if (error > max_abs_) {
      max_abs_ = error;
      max_index_ = elements_;
    }
  }
  // A row with only zeros in the reference has no relative error.
  if (yy_ > norm_before)
    worst_row_ =
        std::max(worst_row_, std::sqrt((difference_ - difference_before) / (yy_ - norm_before)));
}

void Comparer::add_rows(std::span<const float> x, std::span<const float> y, int64_t width) {
  const auto row = static_cast<size_t>(width);
  MOEC_CHECK(row > 0 && x.size() % row == 0, "{} elements are not rows of {}", x.size(), row);
  for (size_t begin = 0; begin < x.size(); begin += row)
    add(x.subspan(begin, row), y.subspan(begin, row));
}

Comparison Comparer::result() const {
  Comparison c;
  c.worst_row = worst_row_;
  c.elements = elements_;
  c.nonfinite = nonfinite_;
  c.max_abs = max_abs_;
  c.max_index = max_index_;
  // 65504 is the largest finite f16 value.
  c.headroom = max_x_ / 65504.0;
  // Two roots instead of the root of the product, which can overflow or underflow.
  const double norms = std::sqrt(xx_) * std::sqrt(yy_);
  c.cosine = norms > 0 ? xy_ / norms : (xx_ == yy_ ? 1.0 : 0.0);
  const double infinity = std::numeric_limits<double>::infinity();
  if (difference_ == 0) {
    c.sqnr_db = infinity;
  } else {
    c.relative_l2 = yy_ > 0 ? std::sqrt(difference_ / yy_) : infinity;
    c.sqnr_db = yy_ > 0 ? 10 * std::log10(yy_ / difference_) : -infinity;
  }
  return c;
}

// Returns the distance between the k-th largest and the next value; infinity if all experts are
// chosen. A small distance means that rounding can change the set of experts.
static double boundary_gap(std::span<const float> choice, size_t k) {
  if (k >= choice.size()) return std::numeric_limits<double>::infinity();
  std::vector<float> sorted(choice.begin(), choice.end());
  // After nth_element(), the k largest values precede sorted[k], in any order.
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(k), sorted.end(),
                   std::greater<>());
  const float next = sorted[k];
  const float kth =
      *std::min_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(k));
  return static_cast<double>(kth) - next;
}

void RouterComparer::add(std::span<const float> weights, std::span<const float> golden_weights,
                         std::span<const int32_t> chosen_golden,
                         std::span<const float> golden_choice, double logit_error) {
  MOEC_CHECK(weights.size() == golden_weights.size(), "router widths differ");
  size_t chosen = 0, common = 0;
  double moved = 0;
  for (size_t e = 0; e < weights.size(); ++e) {
    // Weight that moves from one expert to another appears in two differences, hence the half.
    moved += std::fabs(static_cast<double>(weights[e]) - golden_weights[e]) / 2;
    const bool in_golden = std::find(chosen_golden.begin(), chosen_golden.end(),
                                     static_cast<int32_t>(e)) != chosen_golden.end();
    chosen += weights[e] != 0;
    common += weights[e] != 0 && in_golden;
  }
  // Null slots are numbered after the experts and have no routing weight. The cast also excludes
  // negative slots, which wrap around to large values.
  const auto experts = static_cast<size_t>(
      std::count_if(chosen_golden.begin(), chosen_golden.end(),
                    [&](int32_t slot) { return static_cast<size_t>(slot) < weights.size(); }));
  const double gap = boundary_gap(golden_choice, chosen_golden.size());
  sum_.min_margin = sum_.tokens == 0 ? gap : std::min(sum_.min_margin, gap);
  sum_.same_set += chosen == experts && common == chosen;
  // Both scores can be wrong by `logit_error`, in opposite directions.
  sum_.close_tokens += gap < 2 * logit_error;
  sum_.moved_weight += moved;
  ++sum_.tokens;
}

RouterComparison RouterComparer::result() const {
  RouterComparison r = sum_;
  if (r.tokens) r.moved_weight /= static_cast<double>(r.tokens);
  return r;
}

double log_sum_exp(std::span<const float> logits) {
  // Subtracting the maximum keeps exp() from overflowing: log Σ exp(v) = m + log Σ exp(v − m).
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float v : logits) sum += std::exp(v - top);
  return top + std::log(sum);
}

double kl_divergence(std::span<const float> logits, std::span<const float> golden) {
  MOEC_CHECK(logits.size() == golden.size(), "compared {} logits with {}", logits.size(),
             golden.size());
  const double z = log_sum_exp(logits), golden_z = log_sum_exp(golden);
  double kl = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double golden_log = golden[i] - golden_z, p = std::exp(golden_log);
    // p · log p tends to 0. If p underflows to 0, the logarithm can be −∞, and the product would be
    // NaN.
    if (p != 0) kl += p * (golden_log - (logits[i] - z));
  }
  // Rounding can make the sum slightly negative. A NaN fails the comparison and is returned.
  return kl < 0 ? 0 : kl;
}

void LogitComparer::add(std::span<const float> logits, std::span<const float> golden) {
  sum_.mean_kl += kl_divergence(logits, golden);
  sum_.same_top1 += argmax(logits) == argmax(golden);
  ++sum_.tokens;
}

LogitComparison LogitComparer::result() const {
  LogitComparison r = sum_;
  if (r.tokens) r.mean_kl /= static_cast<double>(r.tokens);
  return r;
}

// The head can be cut into slices, so the logits arrive in parts and their maximum is not known at
// the beginning. Sums are relative to the largest logit up to now.
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
  // The default maximum 0 would make exp() underflow for logits far below 0, because rescale() only
  // raises it.
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

// KL = Σ p · (x − y) + log Z_y − log Z_x. Here, x and y are the logits, p is softmax(x), and Z is
// the sum of exponentials.
double LogitDivergence::kl() const {
  if (!begun_) return 0;
  const double normalizers =
      other_.largest + std::log(other_.sum) - reference_.largest - std::log(reference_.sum);
  const double kl = reference_.cross / reference_.sum + normalizers;
  return kl < 0 ? 0 : kl;  // preserves NaN
}

}  // namespace moec
