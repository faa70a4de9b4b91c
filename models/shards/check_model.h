// Checks the consistency of a resolved model across config keys.
#pragma once

#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

// Returns all findings, each with a code "model.*". A model without findings can be built.
//   model.size        a size is not positive or too large, or a matrix has too many elements
//   model.heads       kv_heads does not divide heads
//   model.rope        the rotated dims are odd or above head_dim; a rope parameter is out of range
//   model.number      eps, scale, clip or temperature is not finite or out of range
//   model.attention   unsupported combination of attention features, such as a query temperature
//                     with a latent
//   model.experts     routing weights multiply the inputs of experts with biases; the total
//                     number of experts exceeds the limit
//   model.top_k       k is below 1 or above the number of experts that can be chosen
//   model.groups      the groups do not divide the experts
//   model.storage     the experts' rows are not a whole number of the storage format's blocks
//   model.dense       the model has dense layers, but the config has no width for them
//   model.router      a layer reads a router state that the previous layer does not have
//   model.labels      unsupported combination of labels and task
//   model.roles       the family has no tensor name for a role that the model needs
Diagnostics check_model(const ModelConfig& model);

}  // namespace moec
