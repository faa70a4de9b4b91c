// Checkpoint tensors that a model needs, with roles and shapes, for checking a checkpoint and for
// planning without weights. The list is made by running the shard builders with a source that
// records each request and reads nothing.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"
#include "models/tensors/needed_tensor.h"

namespace moec {

// The tensors of one role in one layer.
struct NeededRole {
  std::string role;
  int64_t layer = -1;        // -1: embedding and head
  int64_t experts = 0;       // 0: one tensor; otherwise one tensor per expert
  Dims dims;                 // shape of each tensor
  int64_t elements() const;  // sum over all tensors
  bool operator==(const NeededRole&) const = default;
};

// Returns the roles in the order of the model: embedding, layers, head; within a layer in the order
// of the builders' requests. Layers of equal configuration are built once, with a single expert, so
// the time does not depend on the number of experts. The model must pass check_model() except for
// missing roles.
std::vector<NeededRole> needed_roles(const ModelConfig& model);

// The individual tensors with their names. Each role must have a name (missing_roles()).
std::vector<NeededTensor> needed_tensors(const ModelConfig& model);

// The roles that the model needs and model.names lacks, sorted.
std::vector<std::string> missing_roles(const ModelConfig& model);

// The number of elements of all needed tensors.
int64_t parameter_count(const ModelConfig& model);

// A table of the needed tensors with one element type, placed consecutively in a file without a
// path: sufficient for planning, without bytes to read.
WeightTable declared_weights(const ModelConfig& model, DType dtype);

// Returns whether the tensors of the table have types and no bytes (declared_weights()).
bool is_declared(const WeightTable& weights);

// The needed tensors whose types must be compared with the table. For a declared table, only the
// first expert of each role, because all have equal types.
std::vector<NeededTensor> tensors_to_check(const ModelConfig& model, const WeightTable& weights);

}  // namespace moec
