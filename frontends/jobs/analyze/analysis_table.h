// An analysis as a table for people.
#pragma once

#include <string>

#include "frontends/measure/analysis.h"

namespace moec {

// A line for each layer: tokens, entropy, Gini, what a quarter of the experts take, the hottest
// expert, and how many no token chose.
std::string analysis_table(const Analysis& analysis);

}  // namespace moec
