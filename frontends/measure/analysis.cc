#include "frontends/measure/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/base/at.h"

namespace moec {
namespace {

// Numbers of a profile are written as JSON, which has no NaN and no infinity.
bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

Status check_finite(const LayerProfile& layer) {
  if (all_finite(layer.mass) && all_finite(layer.output_norm) && all_finite(layer.saliency) &&
      all_finite(layer.largest_activation))
    return {};
  return fail(
      "analyze.nonfinite",
      fmt::format("routing weights or expert outputs of layer {} are NaN or infinite", layer.layer),
      "check the weights of the model, or analyze with another text");
}

}  // namespace

Result<Analysis> analysis_of(Measurement measured) {
  Analysis analysis{{std::move(measured.model),
                     std::move(measured.checkpoint),
                     std::move(measured.source),
                     digest_of_tokens(measured.text.tokens),
                     measured.experts,
                     measured.top_k,
                     measured.text.categories,
                     {}},
                    {},
                    {},
                    measured.text.window,
                    measured.text.windows(),
                    std::move(measured.notes)};
  const DocumentResamples resamples(measured.text);
  for (LayerMeasurement& layer : measured.layers) {
    MOEC_TRY(check_finite(layer.profile));
    analysis.layers.push_back(layer_statistics(layer, resamples));
    if (layer.sums) analysis.sums.push_back(std::move(*layer.sums));
    analysis.profile.layers.push_back(std::move(layer.profile));
  }
  return analysis;
}

Analysis analysis_of(ExpertProfile profile, Diagnostics notes) {
  Analysis analysis{std::move(profile), {}, {}, 0, 0, std::move(notes)};
  for (const LayerProfile& layer : analysis.profile.layers)
    analysis.layers.push_back(layer_statistics(layer));
  return analysis;
}

template <class T>
std::vector<int64_t> falling_order(const std::vector<T>& values) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  // Stable, so that experts with equal values stay in ascending order.
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return at(values, a) > at(values, b); });
  return order;
}

template std::vector<int64_t> falling_order(const std::vector<int64_t>&);
template std::vector<int64_t> falling_order(const std::vector<double>&);

double entropy_bits(std::span<const int64_t> counts) {
  // H = −Σ p · log₂ p, where p is an expert's share of the selections; a share of 0 contributes 0.
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  double bits = 0;
  for (const int64_t count : counts)
    if (count > 0)
      bits -= static_cast<double>(count) / total * std::log2(static_cast<double>(count) / total);
  return bits;
}

double gini(std::vector<int64_t> counts) {
  // For ascending values x_1 … x_n: G = 2 · Σ i · x_i / (n · Σ x_i) − (n + 1) / n.
  std::sort(counts.begin(), counts.end());
  double sum = 0, ranked = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    sum += static_cast<double>(counts[i]);
    ranked += static_cast<double>(i + 1) * static_cast<double>(counts[i]);
  }
  const auto n = static_cast<double>(counts.size());
  return sum == 0 ? 0 : 2 * ranked / (n * sum) - (n + 1) / n;
}

namespace {

// Returns the running sums of `values` in the given order, divided by `total`.
template <class T>
std::vector<double> running_parts(const std::vector<T>& values, const std::vector<int64_t>& order,
                                  double total) {
  std::vector<double> parts;
  double sum = 0;
  for (const int64_t expert : order) {
    sum += static_cast<double>(at(values, expert));
    parts.push_back(total == 0 ? 0 : sum / total);
  }
  return parts;
}

template <class T>
double sum_of(const std::vector<T>& values) {
  return static_cast<double>(std::accumulate(values.begin(), values.end(), T{0}));
}

// Returns the share of selections that the first c experts capture, per c. The order is from one
// half and the selections are from the other half, so the order does not fit its own data. Empty if
// a half has no selections.
std::vector<double> held_out_curve(const LayerMeasurement& layer) {
  const double total = sum_of(layer.profile.selections);
  const auto& [even, odd] = layer.halves;
  if (sum_of(even) == 0 || sum_of(odd) == 0) return {};
  std::vector<double> curve = running_parts(odd, falling_order(even), total);
  const std::vector<double> other = running_parts(even, falling_order(odd), total);
  for (size_t c = 0; c < curve.size(); ++c) curve[c] += other[c];
  return curve;
}

// Returns the running sums of `values` by ascending index, divided by `total`.
std::vector<double> in_given_order(const std::vector<int64_t>& values, double total) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  return running_parts(values, order, total);
}

// Returns the quantile `part` (0 to 1) of sorted values, with linear interpolation.
double interpolated_quantile(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// Returns each expert's share of the selections in the given documents. A document can occur
// several times, because resamples draw with replacement.
std::vector<double> shares_of(const LayerMeasurement& layer, std::span<const size_t> documents) {
  std::vector<double> shares(layer.profile.selections.size());
  double total = 0;
  for (const size_t document : documents)
    for (size_t e = 0; e < shares.size(); ++e) {
      const auto count = static_cast<double>(layer.by_document[document][e]);
      shares[e] += count;
      total += count;
    }
  for (double& share : shares) share = total == 0 ? 0 : share / total;
  return shares;
}

}  // namespace

DocumentResamples::DocumentResamples(const Text& text)
    : documents_(text.categories.size()), drawn_(text.categories.size()) {
  for (size_t d = 0; d < text.category_of.size(); ++d) documents_[text.category_of[d]].push_back(d);
  // The engine is specified by the C++ standard. std::uniform_int_distribution is not, so the
  // remainder is used: the intervals must be the same with every standard library.
  std::mt19937_64 random(22);  // NOLINT(bugprone-random-generator-seed,cert-msc51-cpp): any seed
  for (size_t c = 0; c < documents_.size(); ++c)
    for (size_t i = 0; i < kResamples * documents_[c].size(); ++i)
      drawn_[c].push_back(documents_[c][random() % documents_[c].size()]);
}

CategoryShares DocumentResamples::shares(const LayerMeasurement& layer, size_t category) const {
  const std::vector<size_t>& documents = documents_[category];
  CategoryShares shares{shares_of(layer, documents), {}, {}};
  // A single document gives the same shares in every resample, so it has no interval.
  if (documents.size() < 2) return shares;
  std::vector<std::vector<double>> drawn(shares.share.size());
  const std::span<const size_t> all = drawn_[category];
  for (size_t r = 0; r < kResamples; ++r) {
    const auto one = shares_of(layer, all.subspan(r * documents.size(), documents.size()));
    for (size_t e = 0; e < one.size(); ++e) drawn[e].push_back(one[e]);
  }
  for (std::vector<double>& values : drawn) {
    std::sort(values.begin(), values.end());
    // The limits of the 95 % interval.
    shares.low.push_back(interpolated_quantile(values, 0.025));
    shares.high.push_back(interpolated_quantile(values, 0.975));
  }
  return shares;
}

LayerStatistics layer_statistics(const LayerProfile& layer) {
  LayerStatistics statistics;
  const double total = sum_of(layer.selections);
  statistics.entropy_bits = entropy_bits(layer.selections);
  statistics.gini = gini(layer.selections);
  // A profile without routing weights has no mass; the number of selections replaces it.
  statistics.order =
      layer.mass.empty() ? falling_order(layer.selections) : falling_order(layer.mass);
  statistics.capture = running_parts(layer.selections, falling_order(layer.selections), total);
  if (!layer.mass.empty())
    statistics.capture_mass = running_parts(layer.mass, statistics.order, sum_of(layer.mass));
  return statistics;
}

LayerStatistics layer_statistics(const LayerMeasurement& layer,
                                 const DocumentResamples& resamples) {
  LayerStatistics statistics = layer_statistics(layer.profile);
  statistics.held_out = held_out_curve(layer);
  // The running sum up to c is the hit rate of an LRU cache of c + 1 experts.
  statistics.latest = in_given_order(layer.reuse, sum_of(layer.profile.selections));
  for (size_t c = 0; c < layer.profile.by_category.size(); ++c)
    statistics.shares.push_back(resamples.shares(layer, c));
  return statistics;
}

}  // namespace moec
