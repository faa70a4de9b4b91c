// Load balance of a model's experts on a text, averaged over its MoE layers.
#pragma once

#include "frontends/measure/analysis.h"

namespace moec {

// An expert counts as used if it gets more than this fraction of an even share of its layer's
// selections.
inline constexpr double kUsedShare = 0.2;

struct LoadBalance {
  double experts_a_token = 0;  // picked experts per token and layer
  double used = 0;             // fraction of used experts, 0 to 1
  double gini = 0;             // LayerStatistics::gini
  double entropy_bits = 0;     // LayerStatistics::entropy_bits
  double entropy_share = 0;    // entropy_bits / log2(experts), 0 to 1
};

// Returns averages over the layers that have tokens; `analysis` must have at least one such layer.
LoadBalance balance_of(const Analysis& analysis);

// Returns the fraction of used experts, given the selection count of each expert; 0 without
// selections.
double used_part(std::span<const int64_t> selections);

}  // namespace moec
