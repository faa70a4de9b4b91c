// Whether a resolved model makes sense: what a frontend cannot see in a single config key.
#pragma once

#include "ir/base/diagnostics.h"
#include "ir/plan/model_config.h"

namespace moec {

// All findings, each with a code "model.*":
//   model.size        a size is not positive or too big
//   model.heads       kv_heads does not divide heads
//   model.rope        the rotated dims are odd or more than head_dim; a rope number is out of range
//   model.number      eps, scale, clip or temperature is not finite or not in its range
//   model.attention   queries have a temperature where no layer rotates, or beside a latent
//   model.experts     experts whose inputs are weighed have biases
//   model.top_k       k is below 1 or above the number of experts that can be chosen
//   model.groups      the expert groups do not divide the experts
//   model.storage     the experts' rows are no whole blocks of the coding
//   model.dense       there are dense layers, and the config gives no width for them
//   model.roles       the family names no tensor for something that the model has
Diagnostics check_model(const ModelConfig& model);

}  // namespace moec
