#include "backends/weights/calibration/load_variation.h"

#include <algorithm>
#include <optional>

namespace moec {
namespace {

// Squared coefficient of variation of the tokens n_e of E experts: E · Σ n_e² / (Σ n_e)² − 1.
// Nullopt if no expert has tokens.
std::optional<double> variation_of(const CalibratedLayer& layer) {
  double experts = 0, sum = 0, squares = 0;
  for (const CalibratedInput& input : layer.inputs) {
    // Only inputs of a single expert have a pool.
    if (input.pool.empty()) continue;
    const auto tokens = static_cast<double>(input.tokens);
    experts += 1;
    sum += tokens;
    squares += tokens * tokens;
  }
  if (sum == 0) return std::nullopt;
  // Equal loads can give a tiny negative number by rounding.
  return std::max(0.0, experts * squares / (sum * sum) - 1);
}

}  // namespace

std::vector<LayerLoads> expert_loads(const CalibrationIndex& index) {
  std::vector<LayerLoads> loads;
  for (const CalibratedLayer& layer : index.layers)
    if (const auto variation = variation_of(layer)) loads.push_back({layer.layer, *variation});
  return loads;
}

double narrowness_of(const std::vector<LayerLoads>& loads) {
  double sum = 0;
  for (const LayerLoads& layer : loads) sum += layer.variation;
  return loads.empty() ? 0 : sum / static_cast<double>(loads.size());
}

}  // namespace moec
