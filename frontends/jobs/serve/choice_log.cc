#include "frontends/jobs/serve/choice_log.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/base/at.h"
#include "ir/experts/expert_profile.h"

namespace moec {
namespace {

LayerChoices scaled(LayerChoices layer, double factor) {
  layer.tokens *= factor;
  for (auto* counts : {&layer.selections, &layer.mass, &layer.together})
    for (double& count : *counts) count *= factor;
  return layer;
}

}  // namespace

LayerChoices ChoiceLog::empty() const {
  const auto experts = static_cast<size_t>(experts_);
  return {0, std::vector<double>(experts), std::vector<double>(experts),
          std::vector<double>(static_cast<size_t>(count_pairs(experts_)))};
}

void ChoiceLog::advance(int64_t tokens) {
  weight_ *= std::exp2(static_cast<double>(tokens) / half_life_);
  // Far below the largest double, so that sums of weights stay finite.
  constexpr double kMostWeight = 0x1p100;
  if (weight_ < kMostWeight) return;
  for (auto& [number, layer] : layers_) layer = scaled(std::move(layer), 1 / weight_);
  weight_ = 1;
}

void ChoiceLog::add(int64_t layer, const Rows& weights) {
  LayerChoices& counts = layers_[layer];
  // Allocated only once, because of the many pairs.
  if (counts.selections.empty()) counts = empty();
  std::vector<int64_t> chosen;
  for (int64_t t = 0; t < weights.count(); ++t) {
    const std::span<const float> row = weights.row(t);
    // Includes null slots, the columns after the experts.
    const double all = std::accumulate(row.begin(), row.end(), 0.0);
    if (all == 0) continue;
    chosen.clear();
    for (int64_t e = 0; e < std::min(experts_, std::ssize(row)); ++e)
      if (at(row, e) != 0) chosen.push_back(e);
    counts.tokens += weight_;
    for (size_t i = 0; i < chosen.size(); ++i) {
      at(counts.selections, chosen[i]) += weight_;
      at(counts.mass, chosen[i]) += weight_ * at(row, chosen[i]) / all;
      for (size_t j = i + 1; j < chosen.size(); ++j)
        at(counts.together, pair_at(chosen[i], chosen[j], experts_)) += weight_;
    }
  }
}

LayerChoices ChoiceLog::layer(int64_t number) const {
  const auto found = layers_.find(number);
  return found == layers_.end() ? empty() : scaled(found->second, 1 / weight_);
}

}  // namespace moec
