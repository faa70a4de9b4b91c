// Results of an analysis.
#pragma once

#include "frontends/measure/layer_statistics.h"
#include "frontends/measure/measurement.h"

namespace moec {

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
