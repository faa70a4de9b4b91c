// Proves the owners of a shard's weights by the checkpoint's tensors that they are read from.
#pragma once

#include <map>
#include <string>

#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"
#include "ir/model/plan.h"
#include "models/shards/weight_uses.h"

namespace moec {

// Compares what find_experts() finds in the graph of a shard of the plan, in form placed, with the
// roles of the tensors in the weights (models/shards/weight_uses.h): a weight is of experts if and
// only if it is read from matrices or biases of routed experts. Error compile.owner: one for each
// weight that breaks this.
// `uses` is weight_uses() of the shard.
Status check_owners(const Plan& plan, size_t index, const std::map<std::string, WeightUse>& uses,
                    const Shard& placed);

}  // namespace moec
