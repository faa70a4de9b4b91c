// Uses of the checkpoint tensors that a shard reads. They are found by running the shard's builder
// with a source that records each request.
#pragma once

#include <map>
#include <string>

#include "ir/experts/expert_id.h"
#include "ir/graph/weight_form.h"
#include "ir/model/plan.h"
#include "ir/model/weight_policy.h"

namespace moec {

struct WeightUse {
  WeightGroup group = WeightGroup::vectors;
  RoleTensor tensor;
  bool operator==(const WeightUse&) const = default;
};

// Uses by the tensor's name in the checkpoint. Codes and scales have the use of their quantized
// tensor. The embedding has the group `head` here, because shards read it only as a tied head.
std::map<std::string, WeightUse> weight_uses(const Plan& plan, size_t shard);

// The form of each tensor that plan.build.weights does not store as float.
WeightForms weight_forms(const Plan& plan, size_t shard);

}  // namespace moec
