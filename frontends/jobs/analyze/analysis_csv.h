// An analysis as CSV tables. Cells of unmeasured values are empty.
#pragma once

#include <string>

#include "frontends/measure/analysis.h"

namespace moec {

// layer,expert_id,selection_count,selection_share,gate_mass,mass_fraction,mean_weight,output_norm,
// saliency,largest_activation
std::string experts_csv(const Analysis& analysis);
// layer,experts,mass,selections,held_out,latest,uniform: the curves of LayerStatistics
std::string capture_csv(const Analysis& analysis);
// layer,category,expert_id,selection_count,share,low,high
std::string categories_csv(const Analysis& analysis);
// layer,expert_a,expert_b,tokens,lift: one row per pair that some token picked together. The lift
// is 1 if the two experts are picked independently. Returns an empty text if pairs were not
// counted.
std::string coactivation_csv(const ExpertProfile& profile);

// expert_id,total_mass,mass_fraction,selection_count of one layer, in descending order of mass.
// Requires LayerProfile::mass.
std::string ranking_csv(const LayerProfile& layer);
// Like ranking_csv(), but summed over all layers. The first line is a comment that warns against
// comparing expert indices across layers.
std::string summed_ranking_csv(const ExpertProfile& profile);

}  // namespace moec
