// Formats an analysis as a human-readable table.
#pragma once

#include <string>

#include "frontends/measure/analysis.h"

namespace moec {

// One line per layer: tokens, entropy, Gini coefficient, share of selections that the top quarter
// of the experts gets, the hottest expert, and the number of experts that no token picked.
std::string analysis_table(const Analysis& analysis);

}  // namespace moec
