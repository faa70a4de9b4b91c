// How evenly a text used the experts of a model: means over its MoE layers.
#pragma once

#include "frontends/measure/analysis.h"

namespace moec {

// An expert counts as used if it takes more than this part of an even share of its layer's
// selections.
inline constexpr double kUsedShare = 0.2;

struct LoadBalance {
  double experts_a_token = 0;  // chosen in a layer
  double used = 0;             // part of the experts that are used, 0 to 1
  double gini = 0;             // LayerStatistics::gini
  double entropy_bits = 0;     // LayerStatistics::entropy_bits
  double entropy_share = 0;    // of log2(experts), 0 to 1
};

// Of the layers that saw a token. The analysis has at least one such layer.
LoadBalance balance_of(const Analysis& analysis);

// The part of the experts with these selections that are used; 0 where none was chosen.
double used_part(std::span<const int64_t> selections);

}  // namespace moec
