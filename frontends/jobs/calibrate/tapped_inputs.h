// Which inputs a shard gives to its matrices, and which matrices share them.
#pragma once

#include <vector>

#include "backends/weights/calibration/calibration_index.h"
#include "ir/model/plan.h"

namespace moec {

// The name of the inputs of all experts together.
inline constexpr const char* kAllExperts = "experts";

struct TappedInput {
  CalibratedInput input;  // without tokens
  std::string matrix;     // label of the weight with which a run tells of them (MatrixProbe)
};

// A matrix of an expert in a shard.
struct ExpertMatrix {
  ValueId weight;
  CalibratedMatrix matrix;
  int64_t tensor_expert = -1;  // the expert whose tensor it is; −1: the tensor holds all of them
};

// A shard of a plan in the model form, and the inputs of its matrices in the order in which they
// are used. A map behind a latent of the experts has none in a shard of some of these.
struct TappedShard {
  Shard body;
  std::vector<TappedInput> inputs;
  std::vector<ExpertMatrix> experts;  // of the routed experts, in the order of the operands
};

// Builds plan.shards[index] for the plan's only width. Errors: those of build_shard().
Result<TappedShard> tap_shard(const Plan& plan, size_t index);

}  // namespace moec
