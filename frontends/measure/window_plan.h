// Plans a model for f32 runs of whole windows of a text, without a cache of earlier tokens. Splits
// the experts of a layer into groups if the layer exceeds the memory.
#pragma once

#include "ir/model/plan.h"

namespace moec {

// Maximum bytes of the Hessian sums of one input for a layer that can use `group_bytes` bytes of
// memory.
constexpr uint64_t sum_bytes(uint64_t group_bytes) { return group_bytes / 4; }

// Errors: those of plan_model().
Result<Plan> window_plan(ModelConfig model, WeightTable weights, int64_t window,
                         uint64_t group_bytes);

}  // namespace moec
