// Plots of an analysis, as SVG.
#pragma once

#include <string>

#include "frontends/measure/analysis.h"

namespace moec {

// Draws a heat map of layers (rows) and experts (columns): selections as a multiple of an even
// share.
std::string heat_map_svg(const ExpertProfile& profile);

// Plots the share of a layer's selections that C experts get, over C. Draws the mean over layers of
// each curve of LayerStatistics, and the line of even shares. The grey curves are the held-out
// curve of each layer, or the capture curve if there is no held-out text.
std::string capture_svg(const Analysis& analysis);

}  // namespace moec
