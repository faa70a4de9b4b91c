// An analysis as tables of comma-separated values. Cells of what was not measured are empty.
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
// layer,expert_a,expert_b,tokens,lift: pairs that occur; the lift is 1 where the two experts are
// chosen independently of one another. Empty where pairs were not counted.
std::string coactivation_csv(const ExpertProfile& profile);

// expert_id,total_mass,mass_fraction,selection_count of one layer, the hottest expert first. Needs
// the mass.
std::string ranking_csv(const LayerProfile& layer);
// The same of all layers summed up, behind a comment that says what that is worth.
std::string summed_ranking_csv(const ExpertProfile& profile);

}  // namespace moec
