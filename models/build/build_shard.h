// Builds the body of one shard of a plan in the model form: composite ops, weights as views of
// checkpoint tensors, and the ports that models/plan/plan_model.h lists.
#pragma once

#include "ir/plan/plan.h"

namespace moec {

// Builds plan.shards[index] for `tokens` tokens a step. The plan must come from plan_model.
// Error plan.options: `tokens` is not one of plan.build.tokens.
Result<Shard> build_shard(const Plan& plan, size_t index, int64_t tokens);

// The rows of the embedding, [vocab, hidden] in plan.build.dtype, scaled as the model scales them.
WeightView build_embedding(const Plan& plan);

}  // namespace moec
