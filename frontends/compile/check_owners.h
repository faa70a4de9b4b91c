// Checks that the graph of a shard uses weights of experts, and only these, as experts.
#pragma once

#include <map>
#include <string>

#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"
#include "ir/model/plan.h"
#include "models/shards/weight_uses.h"

namespace moec {

// Compares what find_experts() finds in the graph of a shard (form `placed`) with the roles of the
// tensors that its weights read (models/shards/weight_uses.h). The graph must use a weight as that
// of an expert if and only if the weight is read from matrices or biases of routed experts. Error:
// compile.owner for each weight that violates this. `uses` is weight_uses() of the shard.
Status check_owners(const Plan& plan, size_t index, const std::map<std::string, WeightUse>& uses,
                    const Shard& placed);

}  // namespace moec
