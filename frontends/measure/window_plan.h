// Plans a model for a text in whole windows, without a cache of earlier tokens, in f32, each layer
// in as many parts as its memory demands.
#pragma once

#include "ir/model/plan.h"

namespace moec {

// Bytes that the sums of one input take at most while a layer runs in `group_bytes` of memory.
constexpr uint64_t sum_bytes(uint64_t group_bytes) { return group_bytes / 4; }

// Errors: those of plan_model().
Result<Plan> window_plan(ModelConfig model, WeightTable weights, int64_t window,
                         uint64_t group_bytes);

}  // namespace moec
