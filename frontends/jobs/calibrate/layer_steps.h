// The steps of a plan's schedule by layer.
#pragma once

#include <vector>

#include "ir/model/plan.h"

namespace moec {

// The steps of one layer, or of the head.
struct LayerSteps {
  int64_t layer = -1;  // −1: the head
  size_t begin = 0, end = 0;
};

// In the order of the schedule, the head last.
std::vector<LayerSteps> layers_of(const Plan& plan);

}  // namespace moec
