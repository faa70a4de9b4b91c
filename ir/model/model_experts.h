// The expert grid of a model.
#pragma once

#include "ir/experts/expert_sets.h"
#include "ir/model/model_config.h"

namespace moec {

// The MoE layers of the model with their experts, top-k and expert groups.
ExpertGrid expert_grid(const ModelConfig& model);

}  // namespace moec
