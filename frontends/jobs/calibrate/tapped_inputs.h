// Finds the inputs of a shard's matrices, and the matrices that share an input.
#pragma once

#include <vector>

#include "backends/weights/calibration/calibration_index.h"
#include "ir/model/plan.h"

namespace moec {

// Name of the pooled inputs of all experts.
inline constexpr const char* kAllExperts = "experts";

struct TappedInput {
  CalibratedInput input;  // token counts are not set
  std::string matrix;     // label of the weight for which MatrixProbe reports the input
};

// A matrix of an expert in a shard.
struct ExpertMatrix {
  ValueId weight;
  CalibratedMatrix matrix;
  int64_t tensor_expert = -1;  // expert of the stored tensor; −1: the tensor contains all experts
};

// A shard of a plan in the model form, and its matrix inputs in the order of use. In a shard with
// only some of the experts, a map after the experts' latent has no input, because such a shard
// computes only a partial sum.
struct TappedShard {
  Shard body;
  std::vector<TappedInput> inputs;
  std::vector<ExpertMatrix> experts;  // of routed experts, in operand order
};

// Builds plan.shards[index] for the plan's only token width. Errors: those of build_shard().
Result<TappedShard> tap_shard(const Plan& plan, size_t index);

}  // namespace moec
