// A model of Qwen3-30B-A3B's sizes with any number of experts, planned from its config alone.
#pragma once

#include "models/plan/plan_model.h"
#include "models/shards/build_shard.h"

namespace moec {

ModelConfig model_with_experts(int64_t experts);
Plan plan_with_experts(int64_t experts);

// The first layer's experts with their router, in model form, for one token.
Shard moe_shard(const Plan& plan);
// The same after the default passes for ONNX: rank routing, unrolled experts.
Shard placed_moe_shard(const Plan& plan);

}  // namespace moec
