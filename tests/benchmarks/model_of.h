// A model with the sizes of Qwen3-30B-A3B and any number of experts, planned from its config alone.
#pragma once

#include "models/plan/plan_model.h"
#include "models/shards/build_shard.h"

namespace moec {

ModelConfig model_with_experts(int64_t experts);
Plan plan_with_experts(int64_t experts);

// Returns the router and experts of the first layer in model form, for one token.
Shard moe_shard(const Plan& plan);
// Returns the same shard after the default passes for ONNX: rank routing and unrolled experts.
Shard placed_moe_shard(const Plan& plan);

}  // namespace moec
