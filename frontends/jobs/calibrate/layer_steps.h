// Groups the steps of a plan's schedule by layer.
#pragma once

#include <vector>

#include "ir/model/plan.h"

namespace moec {

// The steps of one layer, or of the head.
struct LayerSteps {
  int64_t layer = -1;  // −1: the head
  size_t begin = 0, end = 0;
};

// Number of steps that a calibration runs: all steps of a layer, but only one of the head, because
// the parts of the head share an input.
inline size_t steps_of(const LayerSteps& layer) {
  return layer.layer < 0 ? 1 : layer.end - layer.begin;
}

// Returns the layers in schedule order, the head last.
std::vector<LayerSteps> layers_of(const Plan& plan);

}  // namespace moec
