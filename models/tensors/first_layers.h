// A model cut to its first layers: for a trial of an export that would take hours.
#pragma once

#include "ir/graph/weight_table.h"
#include "ir/plan/model_config.h"

namespace moec {

// Keeps the first `count` layers, and embedding, final norm and head as they are. The tensors that
// only the other layers need leave the table. With as many layers as there are nothing changes.
// Error model.layers_kept: count is not 1 … the number of layers.
Status keep_first_layers(ModelConfig& model, WeightTable& weights, int64_t count);

}  // namespace moec
