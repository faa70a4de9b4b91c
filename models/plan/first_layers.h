// Cuts a model to its first layers, to try out an export that would take hours as a whole.
#pragma once

#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

// Keeps the first `count` layers; embedding, final norm and head stay as they are. Tensors that
// only the removed layers need are removed from the table. Nothing changes if `count` is the number
// of layers. Error model.layers_kept: count is below 1 or above the number of layers.
Status keep_first_layers(ModelConfig& model, WeightTable& weights, int64_t count);

}  // namespace moec
