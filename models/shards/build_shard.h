// Builds the body of one shard of a plan in the model form: composite ops, weights as views of
// checkpoint tensors, and the ports that models/plan/plan_model.h lists.
#pragma once

#include "ir/model/plan.h"

namespace moec {

// Builds plan.shards[index] for `tokens` tokens per step. The plan must come from plan_model().
// `form` is the top-k variant of the routers, one of plan.build.experts.top_k; null: the first of
// them, or the model's top-k. Error plan.options: `tokens` is not one of plan.build.tokens.
Result<Shard> build_shard(const Plan& plan, size_t index, int64_t tokens,
                          const TopKVariant* form = nullptr);

// The rows of the embedding, [vocab, hidden] in plan.build.dtype, with the model's scale.
WeightView build_embedding(const Plan& plan);

}  // namespace moec
