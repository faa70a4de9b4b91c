// Measures how evenly the tokens of a calibration are distributed over the experts of each layer.
//
// Routers are trained to give all experts of a layer equal numbers of tokens over the training text
// (Shazeer et al., arXiv 1701.06538; their loss is the square of this coefficient). So loads show
// whether a text covers all domains that the model knows; moments alone do not. A text from one
// domain, or from an unknown one, chooses few experts, however long it is.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/weights/calibration/calibration_index.h"

namespace moec {

struct LayerLoads {
  int64_t layer = 0;
  // Squared coefficient of variation of the tokens per expert: 0 if all experts have equally many,
  // (number of experts − 1) if one expert has all.
  double variation = 0;
};

// Returns loads ordered by layer, for layers whose experts have separate inputs and at least one
// token.
std::vector<LayerLoads> expert_loads(const CalibrationIndex& index);

// Returns the mean variation, used as Hessian::narrowness; 0 without layers.
double narrowness_of(const std::vector<LayerLoads>& loads);

}  // namespace moec
