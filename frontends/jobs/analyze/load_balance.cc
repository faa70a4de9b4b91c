#include "frontends/jobs/analyze/load_balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moec {
namespace {

int64_t sum_of(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

double used_part(std::span<const int64_t> selections) {
  if (selections.empty()) return 0;
  const auto experts = static_cast<double>(selections.size());
  const double least = kUsedShare * static_cast<double>(sum_of(selections)) / experts;
  // `count > 0` matters for a layer without selections, in which `least` is 0.
  const auto used = std::count_if(selections.begin(), selections.end(), [&](int64_t count) {
    return count > 0 && static_cast<double>(count) > least;
  });
  return static_cast<double>(used) / experts;
}

LoadBalance balance_of(const Analysis& analysis) {
  LoadBalance mean;
  double layers = 0;
  for (size_t i = 0; i < analysis.layers.size(); ++i) {
    const LayerProfile& layer = analysis.profile.layers[i];
    // A layer without tokens has no load; it would lower the means.
    if (layer.tokens == 0) continue;
    ++layers;
    // Less than top-k if the router picked null experts, which have no counts.
    mean.experts_a_token +=
        static_cast<double>(sum_of(layer.selections)) / static_cast<double>(layer.tokens);
    mean.used += used_part(layer.selections);
    mean.gini += analysis.layers[i].gini;
    mean.entropy_bits += analysis.layers[i].entropy_bits;
  }
  for (double* value : {&mean.experts_a_token, &mean.used, &mean.gini, &mean.entropy_bits})
    // max() avoids a division by zero if no layer has tokens.
    *value /= std::max(1.0, layers);
  const double most = std::log2(static_cast<double>(analysis.profile.experts));
  // log2(1) is 0: a single expert always has an even load.
  mean.entropy_share = most > 0 ? mean.entropy_bits / most : 1;
  return mean;
}

}  // namespace moec
