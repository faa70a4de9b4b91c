// An analysis, as it is written.
#pragma once

#include "frontends/measure/layer_statistics.h"
#include "frontends/measure/measurement.h"

namespace moec {

struct Analysis {
  ExpertProfile profile;
  std::vector<LayerStatistics> layers;  // those of the profile
  std::vector<ImatrixSums> sums;        // by layer; empty unless they were asked for
  int64_t window = 0, windows = 0;      // tokens that see one another; 0 for an imatrix
  Diagnostics notes;
};

// Error analyze.nonfinite where something measured is NaN or infinite.
Result<Analysis> analysis_of(Measurement measured);

// Of a profile that no text was run for.
Analysis analysis_of(ExpertProfile profile, Diagnostics notes);

// The sums over the layers of a list, by expert. Experts of one number in different layers have
// nothing in common; some readers want one list for a model all the same.
template <class T>
std::vector<T> summed(const ExpertProfile& profile, std::vector<T> LayerProfile::*list) {
  std::vector<T> sums(static_cast<size_t>(profile.experts));
  for (const LayerProfile& layer : profile.layers)
    for (size_t e = 0; e < (layer.*list).size(); ++e) sums[e] += (layer.*list)[e];
  return sums;
}

}  // namespace moec
