// Plans a model for a calibration: whole windows of tokens without a cache of earlier ones, in f32,
// each layer in as many parts as its memory demands.
#pragma once

#include "frontends/calibrate/calibrate_options.h"
#include "ir/plan/plan.h"

namespace moec {

// Errors: those of plan_model().
Result<Plan> calibration_plan(ModelConfig model, WeightTable weights, int64_t window,
                              uint64_t group_bytes);

}  // namespace moec
