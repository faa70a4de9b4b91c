// Truncates a model to its first layers, for a trial export that would otherwise take hours.
#pragma once

#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

// Keeps the first `count` layers, the embedding, the final norm and the head. Removes tensors from
// the table that only removed layers need. Does nothing if `count` is the number of layers. Error
// model.layers_kept: count is below 1 or above the number of layers.
Status keep_first_layers(ModelConfig& model, WeightTable& weights, int64_t count);

}  // namespace moec
