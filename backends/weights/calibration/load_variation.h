// How evenly the tokens of a calibration chose the experts of each layer.
//
// Routers are trained to give all experts of a layer as many tokens, over the text of the training
// (Shazeer et al., arXiv 1701.06538, whose loss is the square of the same coefficient). So the
// loads tell what moments alone do not: whether a text is of all the kinds that the model knows. A
// text of one kind, or of a kind that the model does not know, chooses few experts, however long.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/weights/calibration/calibration_index.h"

namespace moec {

struct LayerLoads {
  int64_t layer = 0;
  // Squared coefficient of variation of the tokens of the experts: 0 where all have as many, their
  // count − 1 where one has them all.
  double variation = 0;
};

// In the order of layers; of those whose experts have inputs of their own and a token.
std::vector<LayerLoads> expert_loads(const CalibrationIndex& index);

// The mean variation, which is Hessian::narrowness; 0 without layers.
double narrowness_of(const std::vector<LayerLoads>& loads);

}  // namespace moec
