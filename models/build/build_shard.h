// Builds the body of one shard of a plan, in the model form: composites, weights as views of
// checkpoint tensors, ports as models/plan/plan_model.h lists them.
#pragma once

#include "ir/plan/plan.h"

namespace moec {

// Shard plan.shards[index] for `tokens` tokens at once; `tokens` is one of plan.build.tokens. The
// plan must come from plan_model. Errors: plan.options for another number of tokens.
Result<Shard> build_shard(const Plan& plan, size_t index, int64_t tokens);

}  // namespace moec
