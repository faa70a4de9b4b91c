// What the checkpoint tensors that a shard reads are for. The list has no conditions of its own: it
// comes from running the shard's builder with a source that records each request.
#pragma once

#include <map>
#include <string>

#include "ir/graph/weight_form.h"
#include "ir/model/plan.h"
#include "ir/model/weight_policy.h"

namespace moec {

struct WeightUse {
  WeightGroup group = WeightGroup::vectors;
  std::string role;     // the builder's name of it (ir/model/model_config.h, TensorNames)
  int64_t layer = -1;   // -1: the head
  int64_t expert = -1;  // -1: none, or all experts in one tensor
  bool operator==(const WeightUse&) const = default;
};

// By the tensor's name in the checkpoint; scales and codes of a tensor that is stored in few bits
// have the use of that tensor. The embedding is of group `head` here: a shard reads it as such.
std::map<std::string, WeightUse> weight_uses(const Plan& plan, size_t shard);

// The form of each tensor that plan.build.weights stores in another form than float.
WeightForms weight_forms(const Plan& plan, size_t shard);

}  // namespace moec
