// Pictures of an analysis, as SVG.
#pragma once

#include <string>

#include "frontends/measure/analysis.h"

namespace moec {

// A row for each layer and a column for each expert: how often it was chosen, as a multiple of an
// even share.
std::string heat_map_svg(const ExpertProfile& profile);

// How much of the selections C experts of a layer take, over C: the mean of the layers for each
// curve of LayerStatistics, each layer's curve held out in grey, and even shares.
std::string capture_svg(const Analysis& analysis);

}  // namespace moec
