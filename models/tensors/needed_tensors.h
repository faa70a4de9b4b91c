// Which checkpoint tensors a model needs, with role and shape: for checking a checkpoint, and for
// planning a model whose weights are not there.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/weight_table.h"
#include "ir/plan/model_config.h"

namespace moec {

struct NeededTensor {
  std::string role, name;
  Dims dims;
  bool operator==(const NeededTensor&) const = default;
};

// In the order of the model: embedding, layers, final norm, head. Experts are fused when
// model.names has experts_gate_up, else one by one.
std::vector<NeededTensor> needed_tensors(const ModelConfig& model);

// The roles that the model needs and model.names lacks.
std::vector<std::string> missing_roles(const ModelConfig& model);

// The first pattern of model.names.ignored that the tensor matches, or null.
const std::string* ignoring_pattern(const ModelConfig& model, const std::string& tensor);

// A table of the needed tensors, all of one element type, laid out one after the other in a file
// without a path: enough to plan with, there are no bytes to read.
WeightTable declared_weights(const ModelConfig& model, DType dtype);

}  // namespace moec
