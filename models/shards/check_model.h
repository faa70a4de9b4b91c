// Checks that a resolved model is consistent, which no single config key can show.
#pragma once

#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

// Returns all findings, each with a code "model.*". A model without findings can be built.
//   model.size        a size is not positive or too large, or a matrix has too many elements
//   model.heads       kv_heads does not divide heads
//   model.rope        the rotated dims are odd or more than head_dim; a rope number is out of range
//   model.number      eps, scale, clip or temperature is not finite or not in its range
//   model.attention   attention features that cannot be combined, e.g. a temperature of queries and
//                     a latent
//   model.experts     the routing weight multiplies the experts' inputs, and they have biases; the
//                     layers have more experts together than any model
//   model.top_k       k is below 1 or above the number of experts that can be chosen
//   model.groups      the groups do not divide the experts
//   model.storage     the experts' rows are not a whole number of the storage format's blocks
//   model.dense       there are dense layers, but the config gives no width for them
//   model.router      a layer takes a router state that the layer before does not have
//   model.labels      labels and task cannot be combined
//   model.roles       the family names no tensor for something that the model has
Diagnostics check_model(const ModelConfig& model);

}  // namespace moec
