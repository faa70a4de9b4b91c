// Formats an analysis as a human-readable table.
#pragma once

#include <cstddef>
#include <string>

#include "frontends/measure/analysis.h"

namespace moec {

// One line per layer: tokens, entropy, Gini coefficient, share of selections that the top quarter
// of the experts gets, the hottest expert, and the number of experts that no token picked. Of more
// than `most_layers` layers, lists those with the least even use (worst_rows.h).
std::string analysis_table(const Analysis& analysis, size_t most_layers);

}  // namespace moec
