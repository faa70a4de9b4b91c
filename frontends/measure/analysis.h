// Results of an analysis.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "frontends/measure/layer_counter.h"
#include "frontends/measure/measurement.h"

namespace moec {

// Each expert's share of a layer's selections in one category. The bounds contain 95 % of resamples
// of the category's documents. They are empty for fewer than two documents.
struct CategoryShares {
  std::vector<double> share, low, high;  // per expert
};

// A curve has one value per number C of experts, starting with 1: the share of the layer's
// selections that C experts receive. Curves that need a token order are empty if the source has
// none.
struct LayerStatistics {
  double entropy_bits = 0;     // of the selection shares; at most log2(experts)
  double gini = 0;             // 0: even load; near 1: one expert has all selections
  std::vector<int64_t> order;  // experts by descending mass; by selections if there is no mass
  std::vector<double> capture_mass;  // share of mass; experts ranked on the same text
  std::vector<double> capture;       // experts ranked on the same text
  std::vector<double> held_out;      // ranked on one half, measured on the other; both ways summed
  std::vector<double> latest;        // hit rate of a cache of the C most recently used experts
  std::vector<CategoryShares> shares;  // one per category
};

// Returns the indices by descending `values`; ties: lower index first.
template <class T>
std::vector<int64_t> falling_order(const std::vector<T>& values);

double entropy_bits(std::span<const int64_t> counts);
double gini(std::vector<int64_t> counts);

// Bootstrap resamples of each category's documents, identical for all layers and runs.
class DocumentResamples {
 public:
  explicit DocumentResamples(const Text& text);
  CategoryShares shares(const LayerMeasurement& layer, size_t category) const;

 private:
  static constexpr size_t kResamples = 400;

  std::vector<std::vector<size_t>> documents_;  // per category
  std::vector<std::vector<size_t>> drawn_;      // per category: kResamples × documents
};

// Returns the statistics of a measured layer.
LayerStatistics layer_statistics(const LayerMeasurement& layer, const DocumentResamples& resamples);
// Returns the statistics of a profile. `held_out`, `latest` and `shares` are empty.
LayerStatistics layer_statistics(const LayerProfile& layer);

struct Analysis {
  ExpertProfile profile;
  std::vector<LayerStatistics> layers;  // one per layer of the profile
  std::vector<ImatrixSums> sums;        // one per layer; empty unless requested
  int64_t window = 0, windows = 0;      // tokens per window, number of windows; 0 for an imatrix
  Diagnostics notes;
};

// Computes the results of a measurement. Error: analyze.nonfinite (a measured value is NaN or
// infinite).
Result<Analysis> analysis_of(Measurement measured);

// Computes the results for a profile that was read from a file instead of measured.
Analysis analysis_of(ExpertProfile profile, Diagnostics notes);

// Returns the sums of `list` over all layers, per expert index. Experts with the same index in
// different layers are unrelated, but some tools require one list per model.
template <class T>
std::vector<T> summed(const ExpertProfile& profile, std::vector<T> LayerProfile::*list) {
  std::vector<T> sums(static_cast<size_t>(profile.experts));
  for (const LayerProfile& layer : profile.layers)
    for (size_t e = 0; e < (layer.*list).size(); ++e) sums[e] += (layer.*list)[e];
  return sums;
}

}  // namespace moec
