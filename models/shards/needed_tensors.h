// Which checkpoint tensors a model needs, with their roles and shapes: for checking a checkpoint,
// and for planning a model whose weights are absent. The list has no conditions of its own: it
// comes from running the shard builders with a source that records each request and reads nothing.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"
#include "models/tensors/needed_tensor.h"

namespace moec {

// The tensors that have one role in one layer.
struct NeededRole {
  std::string role;
  int64_t layer = -1;        // -1: embedding and head
  int64_t experts = 0;       // 0: one tensor; else as many, one for each expert
  Dims dims;                 // of one tensor
  int64_t elements() const;  // of all of them
  bool operator==(const NeededRole&) const = default;
};

// In the order of the model: embedding, layers, head; within a layer in the order in which the
// builders ask. Layers of equal configuration are built once, with a single expert, so the time
// does not grow with the number of experts. The model must have passed check_model, but for the
// roles that its names lack.
std::vector<NeededRole> needed_roles(const ModelConfig& model);

// The same tensor by tensor, with their names. Each role must have a name (missing_roles).
std::vector<NeededTensor> needed_tensors(const ModelConfig& model);

// The roles that the model needs and model.names lacks, sorted.
std::vector<std::string> missing_roles(const ModelConfig& model);

// The number of elements of all needed tensors.
int64_t parameter_count(const ModelConfig& model);

// A table of the needed tensors, all of one element type, placed one after the other in a file
// without a path: enough to plan with, but without bytes to read.
WeightTable declared_weights(const ModelConfig& model, DType dtype);

}  // namespace moec
